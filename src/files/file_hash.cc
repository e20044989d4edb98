#include "files/file_hash.h"

#include <fmt/format.h>

#include "config/fnv1a.h"
#include "files/file_descriptor.h"

namespace ssa {
namespace {

std::string hash(const std::vector<std::filesystem::path>& files, bool with_names) {
  std::uint64_t hash = kFnvBasis;
  std::vector<char> buffer(1 << 16);
  for (const auto& file : files) {
    const FileDescriptor in = open_to_read(file);
    if (with_names) hash = fnv1a(file.filename().string(), hash);
    while (const std::size_t size = read_some(in, buffer.data(), buffer.size(), file.string())) {
      hash = fnv1a({buffer.data(), size}, hash);
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
