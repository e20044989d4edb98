// A short name for the content of files, so that results say what they were measured on.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ssa {

/// FNV-1a (64 bits, in hexadecimal) over names and contents of the files in their order. Tells
/// apart data by accident different; not for defence. Throws std::runtime_error naming a file that
/// cannot be read.
std::string hash_files(const std::vector<std::filesystem::path>& files);

/// The same over the contents alone, of files whose names are the user's choice.
std::string hash_contents(const std::vector<std::filesystem::path>& files);

}  // namespace ssa
