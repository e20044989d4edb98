#include "data/file_hash.h"

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>

namespace ssa {

std::string hash_files(const std::vector<std::filesystem::path>& files) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::string_view bytes) {
    for (const char byte : bytes) {
      hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    }
  };
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw std::runtime_error(fmt::format("{}: cannot be read", file.string()));
    add(file.filename().string());
    add(std::string{std::istreambuf_iterator<char>(in), {}});
  }
  return fmt::format("fnv1a64:{:016x}", hash);
}

}  // namespace ssa
