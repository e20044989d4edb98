// Text files line by line: the one reader of lines, whoever wrote them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace ssa {

/// A line of a text file without what editors put around lines: the \r of \r\n, and the byte order
/// mark before the first one.
struct TextLine {
  std::string_view text;
  std::int64_t number = 0;                                ///< from 1 on
  bool ended = false;                                     ///< false of a last one without \n
  bool carriage_return = false, byte_order_mark = false;  ///< there was one
};

/// Calls `work` with every line of the file (decompressed if it is a .gz or .zst), of standard
/// input where `file` is empty. Throws std::runtime_error naming the file that cannot be read, and
/// file and line for std::invalid_argument from `work`.
void for_each_text_line(const std::filesystem::path& file,
                        const std::function<void(const TextLine& line)>& work);

/// The same for those who want the texts alone.
void for_each_line(const std::filesystem::path& file,
                   const std::function<void(std::string_view line)>& work);

/// All of the text file as it stands, without a byte order mark. Throws std::runtime_error naming
/// the file, and where it is not valid UTF-8.
std::string read_text(const std::filesystem::path& file);

}  // namespace ssa
