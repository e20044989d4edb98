// UTF-8 and the three properties of characters that tokenizers need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ssa {

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

/// L*, N*, White_Space and everything else. The first three are disjoint.
enum class CharClass : std::uint8_t { letter, number, space, other };

/// Of Unicode 16, whatever utf8proc knows.
CharClass char_class(char32_t code_point);

/// Every character of valid UTF-8 by itself in lower case (Unicode 17): Σ becomes σ also at the end
/// of a word, İ becomes i and U+0307. So does the normalizer Lowercase of Hugging Face's
/// tokenizers.
std::string lowercase(std::string_view text);

}  // namespace ssa
