// Text files line by line.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace ssa {

/// A line of a file of Windows without the \r that stands before its end.
inline std::string_view without_carriage_return(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// Calls `work` with every line of the file (decompressed if it is a .gz or .zst), of standard
/// input where `file` is empty. A line ends at \n alone, so \r is its text. Throws
/// std::runtime_error naming the file that cannot be read, and file and line for
/// std::invalid_argument from `work`.
void for_each_line(const std::filesystem::path& file,
                   const std::function<void(const std::string& line)>& work);

}  // namespace ssa
