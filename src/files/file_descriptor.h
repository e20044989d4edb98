// Open files: closed at the end, and never opened as what they are not.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace ssa {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    reset();
    number_ = std::exchange(other.number_, -1);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  void reset();

 private:
  int number_ = -1;
};

/// Whether a pipe may stand where a file is read: only what is read once and in order may.
enum class Pipes { refused, read };

/// Opens a file for reading. A pipe whose writer does not come within 5 seconds is an error. Throws
/// std::runtime_error naming the file and the system's reason, or what it is instead.
FileDescriptor open_to_read(const std::filesystem::path& file, Pipes pipes = Pipes::refused);

/// Fills the front of the memory; how much is less than `size` only at the end. Throws naming
/// `name`.
std::size_t read_some(const FileDescriptor& file, void* memory, std::size_t size,
                      const std::string& name);

/// "FILE: cannot be WHAT: No space left on device", from errno as it stands.
[[noreturn]] void throw_system_error(const std::filesystem::path& file, std::string_view what);

/// The file's content. Throws as open_to_read, and for files of more than `most` bytes.
std::string read_file(const std::filesystem::path& file, std::size_t most = std::size_t{1} << 30);

}  // namespace ssa
