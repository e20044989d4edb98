// A file mapped into memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace ssa {

/// Read-only. Where the file becomes shorter while it is mapped, the system ends the process that
/// reads what is gone (SIGBUS); the process then says first which file that was, and calls what
/// before_shrunk() has.
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

/// Calls `tell` with "FILE: became shorter while it was read", in a thread of its own, before that
/// ends the process; {} = nobody is told.
void before_shrunk(std::function<void(const std::string& reason)> tell);

}  // namespace ssa
