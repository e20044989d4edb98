#include "tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace ssa {
namespace {

struct CodePointRange {
  char32_t first, last;
};

// utf8proc 2.8 holds Unicode 15.0. What came later is listed here, so that ids do not depend on the
// library's version: letters and numbers of 15.1 and 16.0, lower case of 16.0 and 17.0. A test
// compares every code point with PyPI tokenizers.
constexpr CodePointRange kLaterLetters[] = {
    {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3},
    {0x10D4A, 0x10D65}, {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x11380, 0x11389},
    {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113B7},
    {0x113D1, 0x113D1}, {0x113D3, 0x113D3}, {0x11BC0, 0x11BE0}, {0x13460, 0x143FA},
    {0x16100, 0x1611D}, {0x16D40, 0x16D6C}, {0x18CFF, 0x18CFF}, {0x1E5D0, 0x1E5ED},
    {0x1E5F0, 0x1E5F0}, {0x2EBF0, 0x2EE5D}};
constexpr CodePointRange kLaterNumbers[] = {
    {0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9}, {0x16130, 0x16139},
    {0x16D70, 0x16D79}, {0x1CCF0, 0x1CCF9}, {0x1E5F1, 0x1E5FA}};

struct LowerRange {
  char32_t first, last;
  char32_t lower;  ///< of `first`; the others follow in order
};
constexpr LowerRange kLaterLower[] = {{0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},
                                      {0xA7CC, 0xA7CC, 0xA7CD},    {0xA7CE, 0xA7CE, 0xA7CF},
                                      {0xA7D2, 0xA7D2, 0xA7D3},    {0xA7D4, 0xA7D4, 0xA7D5},
                                      {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x19B},
                                      {0x10D50, 0x10D65, 0x10D70}, {0x16EA0, 0x16EB8, 0x16EBB}};

constexpr char32_t kCapitalIWithDot = 0x130;
constexpr char32_t kDotAbove = 0x307;

bool is_in(char32_t code_point, const CodePointRange& range) {
  return range.first <= code_point && code_point <= range.last;
}

template <std::size_t kCount>
bool is_in(char32_t code_point, const CodePointRange (&ranges)[kCount]) {
  return std::ranges::any_of(ranges,
                             [&](const CodePointRange& range) { return is_in(code_point, range); });
}

CharClass look_up_class(char32_t code_point) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::number;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharClass::space;
    case UTF8PROC_CATEGORY_CC: {
      const bool space = (code_point >= '\t' && code_point <= '\r') || code_point == 0x85;
      return space ? CharClass::space : CharClass::other;
    }
    case UTF8PROC_CATEGORY_CN:
      if (is_in(code_point, kLaterLetters)) return CharClass::letter;
      if (is_in(code_point, kLaterNumbers)) return CharClass::number;
      return CharClass::other;
    default:
      return CharClass::other;
  }
}

char32_t look_up_lower(char32_t code_point) {
  for (const LowerRange& range : kLaterLower) {
    if (is_in(code_point, {range.first, range.last})) {
      return range.lower + (code_point - range.first);
    }
  }
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point)));
}

}  // namespace

CharClass char_class(char32_t code_point) {
  static const auto ascii = [] {
    std::array<CharClass, 128> table{};
    for (char32_t c = 0; c < table.size(); ++c) table[c] = look_up_class(c);
    return table;
  }();
  return code_point < ascii.size() ? ascii[code_point] : look_up_class(code_point);
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    if (point.length == 1) {
      const char c = text[0];
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (point.value == kCapitalIWithDot) {
      out += 'i';
      append_utf8(out, kDotAbove);
    } else {
      append_utf8(out, look_up_lower(point.value));
    }
    text.remove_prefix(point.length);
  }
  return out;
}

}  // namespace ssa
