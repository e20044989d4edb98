#include "text/words.h"

#include "files/utf8.h"
#include "tokenizer/unicode.h"

namespace ssa {
namespace {

/// Whether the character at the text's start, of that length in bytes, is white space.
bool starts_with_space(std::string_view text, std::size_t& length) {
  const CodePoint point = first_code_point(text);
  length = point.length;
  return point.valid && is_white_space(point.value);
}

}  // namespace

bool is_white_space(char32_t code_point) {
  return (code_point >= 0x1C && code_point <= 0x1F) || char_class(code_point) == CharClass::space;
}

std::int64_t count_words(std::string_view text) {
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t length = 0; !text.empty(); text.remove_prefix(length)) {
    const bool space = starts_with_space(text, length);
    words += !space && !inside;
    inside = !space;
  }
  return words;
}

bool is_blank(std::string_view text) { return without_space_before(text).empty(); }

std::string_view without_space_before(std::string_view text) {
  std::size_t length = 0;
  while (!text.empty() && starts_with_space(text, length)) text.remove_prefix(length);
  return text;
}

std::string_view without_space_behind(std::string_view text) {
  std::size_t end = text.size(), length = 0;
  while (end > 0) {
    std::size_t begin = end - 1;
    while (begin > 0 && (text[begin] & 0xC0) == 0x80) --begin;
    if (!starts_with_space(text.substr(begin, end - begin), length)) break;
    end = begin;
  }
  return text.substr(0, end);
}

}  // namespace ssa
