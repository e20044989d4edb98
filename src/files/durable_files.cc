#include "files/durable_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace ssa {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kBuffer = 1 << 18;

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// "step-7" -> ".step-7.5f0c…9e.tmp" in the same folder: renaming stays within one file system.
fs::path beside(const fs::path& path, const char* ending) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof(random), 0) != sizeof(random)) {
    throw_system_error(path, "given a temporary name");
  }
  return path.parent_path() /
         fmt::format(".{}.{:016x}.{}", path.filename().string(), random, ending);
}

bool is_temporary(const std::string& name) {
  return name.starts_with('.') && (name.ends_with(".tmp") || name.ends_with(".removed"));
}

/// Whether the lock is this process's, and what is locked still has its name: between the making
/// and the locking somebody may have swept it away. File systems without locks have no sweeping
/// either.
bool hold(int opened) {
  if (::flock(opened, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  struct stat facts {};
  return ::fstat(opened, &facts) == 0 && facts.st_nlink > 0;
}

/// What a link points to, for the target of a rename.
fs::path through_links(const fs::path& path) {
  const fs::path file = fs::is_symlink(path) ? fs::weakly_canonical(path) : path;
  if (fs::exists(file) && !fs::is_regular_file(file)) {
    throw std::runtime_error(
        fmt::format("{}: is not a file that could be replaced", path.string()));
  }
  return file;
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_system_error(to, "written");
}

}  // namespace

FileWriter::FileWriter(const fs::path& file, Start start) : FileWriter(file, start, file) {}

FileWriter::FileWriter(const fs::path& file, Start start, fs::path name) : name_(std::move(name)) {
  const int how = start == Start::append ? O_APPEND : O_EXCL | O_NOFOLLOW;
  descriptor_ =
      FileDescriptor(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | how, 0666));
  if (!descriptor_) throw_system_error(name_, "written");
}

void FileWriter::write(const void* data, std::size_t bytes) {
  if (buffer_.size() + bytes > kBuffer) flush();
  if (bytes <= kBuffer) {
    buffer_.append(static_cast<const char*>(data), bytes);
    return;
  }
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::write(descriptor_.number(), from, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_system_error(name_, "written");
    from += count;
    bytes -= static_cast<std::size_t>(count);
  }
}

void FileWriter::flush() {
  const std::string pending = std::exchange(buffer_, {});
  std::size_t done = 0;
  while (done < pending.size()) {
    const ssize_t count =
        ::write(descriptor_.number(), pending.data() + done, pending.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_system_error(name_, "written");
    done += static_cast<std::size_t>(count);
  }
}

void FileWriter::sync() {
  flush();
  if (::fsync(descriptor_.number()) != 0) throw_system_error(name_, "synced to disk");
}

NewFile::NewFile(const fs::path& target) : target_(through_links(target)) {
  do {
    temporary_ = beside(target_, "tmp");
    writer_.emplace(temporary_, FileWriter::Start::new_file, target);
  } while (!hold(writer_->descriptor()));
}

NewFile::~NewFile() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove(temporary_, ignored);
}

void NewFile::commit() {
  writer_->sync();
  rename_path(temporary_, target_);
  temporary_.clear();
  sync_path(parent_of(target_));
}

NewFolder::NewFolder(const fs::path& target) : target_(target) {
  do {
    temporary_ = beside(target_, "tmp");
    if (::mkdir(temporary_.c_str(), 0777) != 0) throw_system_error(target_, "written");
    lock_ = FileDescriptor(::open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  } while (!lock_ || !hold(lock_.number()));
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void NewFolder::commit() {
  sync_path(temporary_);
  if (fs::exists(target_)) remove_folder(target_);
  rename_path(temporary_, target_);
  temporary_.clear();
  sync_path(parent_of(target_));
}

void sweep_temporaries(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path& path = entry.path();
    if (!is_temporary(path.filename().string())) continue;
    const FileDescriptor opened(
        ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    if (opened && ::flock(opened.number(), LOCK_EX | LOCK_NB) != 0) continue;  // it is being made
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
}

void sync_path(const fs::path& path) {
  const FileDescriptor opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened || ::fsync(opened.number()) != 0) throw_system_error(path, "synced to disk");
}

void write_file(const fs::path& file, std::string_view text) {
  NewFile out(file);
  out.writer().write(text);
  out.commit();
}

void write_json(const fs::path& file, const Json& value) {
  write_file(file, json_text(value, 2) + "\n");
}

void remove_folder(const fs::path& folder) {
  const fs::path doomed = beside(folder, "removed");
  rename_path(folder, doomed);
  fs::remove_all(doomed);
}

}  // namespace ssa
