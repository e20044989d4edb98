// A file mapped into memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace ssa {

/// Read-only. Where the file becomes shorter while it is mapped, the system ends the process that
/// reads what is gone (SIGBUS); the process then says first which file that was.
class MappedFile {
 public:
  /// Throws std::runtime_error naming the file that cannot be mapped.
  explicit MappedFile(const std::filesystem::path& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace ssa
