// Files that survive a crash: written under a temporary name, synced, then renamed.
#pragma once

#include <filesystem>
#include <string_view>

#include "config/field.h"

namespace ssa {

/// Writes `text` to `file` so that a crash leaves the old content or the new, never a part. Throws
/// std::runtime_error naming the file.
void write_file(const std::filesystem::path& file, std::string_view text);

/// write_file of the indented value. Numbers that are not finite become null.
void write_json(const std::filesystem::path& file, const Json& value);

/// Throws std::runtime_error naming the file if it is missing or not JSON.
Json read_json(const std::filesystem::path& file);

/// Makes a file's or folder's content (for a folder: its list of names) reach the disk.
void sync_path(const std::filesystem::path& path);

/// Renames a folder and makes the new name reach the disk. What stood at `to` is removed.
void replace_folder(const std::filesystem::path& from, const std::filesystem::path& to);

/// Removes a folder so that a crash in between does not leave a part of it under its name.
void remove_folder(const std::filesystem::path& folder);

}  // namespace ssa
