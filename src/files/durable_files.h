// Files that survive a crash: written under a temporary name, synced, then renamed.
//
// Temporary names cannot be guessed, and are never opened where something stands already. A
// temporary file is locked (flock) by its maker and removed with it; sweep_temporaries() removes
// those that a killed process has left.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "files/file_descriptor.h"
#include "files/json.h"

namespace ssa {

/// A file under its own name, written from its start or from its end on. Throws std::runtime_error
/// naming the file and the system's reason.
class FileWriter {
 public:
  /// new_file: must not exist, not even as a link. append: made where it does not exist.
  enum class Start { new_file, append };
  FileWriter(const std::filesystem::path& file, Start start);
  /// The same; errors call it `name`.
  FileWriter(const std::filesystem::path& file, Start start, std::filesystem::path name);

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// What was written is in the file when this returns, for whoever reads it.
  void flush();
  /// … and on the disk.
  void sync();

  int descriptor() const { return descriptor_.number(); }

 private:
  std::filesystem::path name_;
  FileDescriptor descriptor_;
  std::string buffer_;
};

/// A file in the making, beside its later name. Removed unless commit() gave it that name.
class NewFile {
 public:
  /// Through links, or the rename would put a file in the place of the link; and only over files.
  explicit NewFile(const std::filesystem::path& target);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  FileWriter& writer() { return *writer_; }
  void commit();

 private:
  std::filesystem::path target_, temporary_;
  std::optional<FileWriter> writer_;
};

/// The same of a folder. Its maker syncs the files in it.
class NewFolder {
 public:
  explicit NewFolder(const std::filesystem::path& target);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// Where to put its files.
  const std::filesystem::path& path() const { return temporary_; }
  /// What stood at the target is removed.
  void commit();

 private:
  std::filesystem::path target_, temporary_;
  FileDescriptor lock_;
};

/// Removes what killed processes have left in the folder (not in those below it) of files and
/// folders in the making, and of folders that were being removed. Those whose maker lives stay.
void sweep_temporaries(const std::filesystem::path& folder);

/// Writes `text` to `file` so that a crash leaves the old content or the new, never a part. Throws
/// std::runtime_error naming the file and the reason.
void write_file(const std::filesystem::path& file, std::string_view text);

/// write_file of the indented value. Numbers that are not finite become null.
void write_json(const std::filesystem::path& file, const Json& value);

/// Makes a file's or folder's content (for a folder: its list of names) reach the disk.
void sync_path(const std::filesystem::path& path);

/// Removes a folder so that a crash in between does not leave a part of it under its name.
void remove_folder(const std::filesystem::path& folder);

}  // namespace ssa
