#include "files/durable_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace ssa {
namespace fs = std::filesystem;
namespace {

/// "step-7" -> ".step-7.tmp" in the same folder: renaming stays within one file system.
fs::path beside(const fs::path& path, const char* ending) {
  return path.parent_path() / fmt::format(".{}{}", path.filename().string(), ending);
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

void sync_path(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!synced) {
    throw std::runtime_error(
        fmt::format("{}: cannot be synced to disk: {}", path.string(), std::strerror(error)));
  }
}

void write_file(const fs::path& path, std::string_view text) {
  // Through links, or the rename would put a file in the place of the link; and only over files: as
  // root it would replace a device.
  const fs::path file = fs::is_symlink(path) ? fs::weakly_canonical(path) : path;
  if (fs::exists(file) && !fs::is_regular_file(file)) {
    throw std::runtime_error(
        fmt::format("{}: is not a file that could be replaced", path.string()));
  }
  // Two programs may write one file at once: the later rename holds, and neither sees half a file.
  const fs::path temporary = beside(file, fmt::format(".{}.tmp", ::getpid()).c_str());
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    out.close();
    if (!out) throw std::runtime_error(fmt::format("{}: cannot be written", file.string()));
  }
  sync_path(temporary);
  fs::rename(temporary, file);
  sync_path(parent_of(file));
}

void write_json(const fs::path& file, const Json& value) { write_file(file, value.dump(2) + "\n"); }

Json read_json(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in || !fs::is_regular_file(file)) {
    throw std::runtime_error(fmt::format("{}: no such file", file.string()));
  }
  try {
    return Json::parse(in);
  } catch (const Json::parse_error& error) {
    throw std::runtime_error(
        fmt::format("{}: not valid JSON (byte {})", file.string(), error.byte));
  }
}

void replace_folder(const fs::path& from, const fs::path& to) {
  if (fs::exists(to)) remove_folder(to);
  fs::rename(from, to);
  sync_path(parent_of(to));
}

void remove_folder(const fs::path& folder) {
  const fs::path doomed = beside(folder, ".removed");
  fs::remove_all(doomed);
  fs::rename(folder, doomed);
  fs::remove_all(doomed);
}

}  // namespace ssa
