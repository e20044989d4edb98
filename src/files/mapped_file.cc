#include "files/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace ssa {

MappedFile::MappedFile(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat facts {};
  void* start = nullptr;  // an empty file cannot be mapped, and need not be
  bool mapped = descriptor >= 0 && ::fstat(descriptor, &facts) == 0;
  if (mapped && facts.st_size > 0) {
    start = ::mmap(nullptr, static_cast<std::size_t>(facts.st_size), PROT_READ, MAP_SHARED,
                   descriptor, 0);
    mapped = start != MAP_FAILED;
  }
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!mapped) {
    throw std::runtime_error(
        fmt::format("{}: {}", file.string(),
                    error == ENOENT ? "no such file"
                                    : fmt::format("cannot be read: {}", std::strerror(error))));
  }
  bytes_ = {static_cast<const std::byte*>(start), static_cast<std::size_t>(facts.st_size)};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace ssa
