#include "files/file_descriptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "config/suggestion.h"

namespace ssa {
namespace fs = std::filesystem;

void FileDescriptor::reset() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

void throw_system_error(const fs::path& file, std::string_view what) {
  const int error = errno;
  throw std::runtime_error(
      fmt::format("{}: cannot be {}: {}", file.string(), what, std::strerror(error)));
}

namespace {

constexpr int kWaitForWriter = 5000;  // milliseconds

/// Whether it is one of a shell's `|` or `<(…)`, whose writer has been there.
bool is_unnamed(const FileDescriptor& pipe) {
  struct statfs facts {};
  return ::fstatfs(pipe.number(), &facts) == 0 && facts.f_type == PIPEFS_MAGIC;
}

/// A named pipe that nobody has opened for writing yet would look empty.
void require_writer(const FileDescriptor& pipe, const fs::path& file) {
  pollfd asked = {pipe.number(), POLLIN, 0};
  if (::poll(&asked, 1, kWaitForWriter) != 0) return;
  char byte = 0;
  // Without data: 0 where nobody writes, an error where somebody may yet.
  if (::read(pipe.number(), &byte, 1) == 0) {
    throw std::runtime_error(fmt::format("{}: is a pipe that no process writes to (waited {} s)",
                                         file.string(), kWaitForWriter / 1000));
  }
}

}  // namespace

FileDescriptor open_to_read(const fs::path& file, Pipes pipes) {
  FileDescriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!opened) {
    if (errno == ENOENT) {
      throw std::runtime_error(
          fmt::format("{}: no such file{}", file.string(), did_you_mean(file)));
    }
    throw_system_error(file, "read");
  }
  struct stat facts {};
  if (::fstat(opened.number(), &facts) != 0) throw_system_error(file, "read");
  if (S_ISDIR(facts.st_mode)) {
    throw std::runtime_error(fmt::format("{}: is a folder, not a file", file.string()));
  }
  const bool stream = S_ISFIFO(facts.st_mode) || S_ISCHR(facts.st_mode) || S_ISSOCK(facts.st_mode);
  if (!S_ISREG(facts.st_mode) && !(stream && pipes == Pipes::read)) {
    throw std::runtime_error(fmt::format("{}: is a pipe or device, not a file", file.string()));
  }
  if (S_ISFIFO(facts.st_mode) && !is_unnamed(opened)) require_writer(opened, file);
  const int flags = ::fcntl(opened.number(), F_GETFL);
  if (flags < 0 || ::fcntl(opened.number(), F_SETFL, flags & ~O_NONBLOCK) < 0) {
    throw_system_error(file, "read");
  }
  return opened;
}

std::size_t read_some(const FileDescriptor& file, void* memory, std::size_t size,
                      const std::string& name) {
  std::size_t filled = 0;
  while (filled < size) {
    const ssize_t count = ::read(file.number(), static_cast<char*>(memory) + filled, size - filled);
    if (count == 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_system_error(name, "read");
    filled += static_cast<std::size_t>(count);
  }
  return filled;
}

std::string read_file(const fs::path& path, std::size_t most) {
  const FileDescriptor file = open_to_read(path);
  std::string content;
  constexpr std::size_t kPiece = 1 << 16;
  while (true) {
    const std::size_t before = content.size();
    content.resize(before + kPiece);
    const std::size_t count = read_some(file, content.data() + before, kPiece, path.string());
    content.resize(before + count);
    if (content.size() > most) {
      throw std::runtime_error(fmt::format(
          "{}: is larger than the {} bytes that are read of such a file", path.string(), most));
    }
    if (count < kPiece) return content;
  }
}

}  // namespace ssa
