#include "files/file_hash.h"

#include <fmt/format.h>

#include "files/file_descriptor.h"

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
    const FileDescriptor in = open_to_read(file);
    if (with_names) hash = hash_text(file.filename().string(), hash);
    while (const std::size_t size = read_some(in, buffer.data(), buffer.size(), file.string())) {
      hash = hash_text({buffer.data(), size}, hash);
    }
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
