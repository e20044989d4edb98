#include "files/file_hash.h"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>

namespace ssa {

std::uint64_t hash_text(std::string_view text, std::uint64_t hash) {
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

namespace {

std::string hash(const std::vector<std::filesystem::path>& files, bool with_names) {
  std::uint64_t hash = hash_text({});
  std::vector<char> buffer(1 << 16);
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw std::runtime_error(fmt::format("{}: cannot be read", file.string()));
    if (with_names) hash = hash_text(file.filename().string(), hash);
    while (in) {
      in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
      hash = hash_text({buffer.data(), static_cast<std::size_t>(in.gcount())}, hash);
    }
    if (in.bad()) throw std::runtime_error(fmt::format("{}: reading failed", file.string()));
  }
  return fmt::format("fnv1a64:{:016x}", hash);
}

}  // namespace

std::string hash_files(const std::vector<std::filesystem::path>& files) {
  return hash(files, true);
}

std::string hash_contents(const std::vector<std::filesystem::path>& files) {
  return hash(files, false);
}

}  // namespace ssa
