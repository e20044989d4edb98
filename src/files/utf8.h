// UTF-8: code points, and where a text is none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ssa {

/// What Unicode's signature at the start of a text file is in UTF-8. It is no text.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// The code point at the start of a text. Where the text is not valid UTF-8, `length` is that of
/// the longest part that could have begun one (at least 1): what Unicode (chapter 3.9) and WHATWG
/// replace by one U+FFFD.
struct CodePoint {
  char32_t value = 0;
  std::uint8_t length = 0;  ///< bytes
  bool valid = false;
};

/// `text` must not be empty.
CodePoint first_code_point(std::string_view text);

void append_utf8(std::string& text, char32_t code_point);

/// Offset of the first byte that does not belong to valid UTF-8.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

/// Throws std::invalid_argument naming the first byte that does not belong to valid UTF-8.
void check_utf8(std::string_view text);

/// The text with U+FFFD for what is not valid UTF-8.
std::string replace_invalid_utf8(std::string text);

}  // namespace ssa
