#include "tokenizer/unicode.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ssa {
namespace {

struct InvalidCase {
  std::string text;
  std::size_t offset;
  std::string replaced;
};

// What is replaced: the longest part that could have begun a character (The Unicode Standard, table
// 3-8), so F0 80 80 41 is three replacements and a letter, F0 90 80 41 is one.
const InvalidCase kInvalid[] = {
    {"\xFF", 0, "�"},
    {"ab\x80", 2, "ab�"},
    {"\xC0\xAF", 0, "��"},
    {"é\xE0\x80\xAF", 2, "é���"},
    {"\xED\xA0\x80", 0, "���"},
    {"\xF0\x80\x80\x41", 0, "���A"},
    {"\xF0\x90\x80\x41", 0, "�A"},
    {"\xF4\x90\x80\x80", 0, "����"},
    {"12345678\xE2\x82", 8, "12345678�"},
    {"12345678\xF5z", 8, "12345678�z"},
    {std::string("\0\xC3", 2), 1, std::string("\0�", 4)},
};

TEST(Unicode, InvalidBytesAreFoundAndReplaced) {
  for (const InvalidCase& c : kInvalid) {
    ASSERT_EQ(find_invalid_utf8(c.text), c.offset) << testing::PrintToString(c.text);
    EXPECT_EQ(replace_invalid_utf8(c.text), c.replaced);
  }
}

TEST(Unicode, EveryCodePointRoundTrips) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c == 0xD800) c = 0xE000;
    std::string text;
    append_utf8(text, c);
    const CodePoint point = first_code_point(text + "x");
    ASSERT_TRUE(point.valid && point.value == c && point.length == text.size()) << std::hex << +c;
    ASSERT_EQ(find_invalid_utf8(text), std::nullopt);
    // A character that is cut short is one part to replace.
    if (text.size() > 1) {
      ASSERT_EQ(replace_invalid_utf8(text.substr(0, text.size() - 1)), "�") << std::hex << +c;
    }
  }
}

TEST(Unicode, Classes) {
  struct Case {
    char32_t code_point;
    CharClass expected;
  };
  const Case cases[] = {
      {'a', CharClass::letter},     {0xE9, CharClass::letter},    {0x4E2D, CharClass::letter},
      {0x2B0, CharClass::letter},   {'0', CharClass::number},     {0xBD, CharClass::number},
      {0x2167, CharClass::number},  {' ', CharClass::space},      {'\t', CharClass::space},
      {0x85, CharClass::space},     {0xA0, CharClass::space},     {0x2028, CharClass::space},
      {0x3000, CharClass::space},   {0x200B, CharClass::other},   {0x180E, CharClass::other},
      {0x301, CharClass::other},    {'\0', CharClass::other},     {0x1C, CharClass::other},
      {'_', CharClass::other},      {0x1F600, CharClass::other},  {0xE000, CharClass::other},
      {0x10D50, CharClass::letter}, {0x1E5F1, CharClass::number}, {0x378, CharClass::other},
  };
  for (const Case& c : cases)
    EXPECT_EQ(char_class(c.code_point), c.expected) << std::hex << +c.code_point;
}

TEST(Unicode, LowerCaseIsOfEachCharacterByItself) {
  EXPECT_EQ(lowercase(""), "");
  EXPECT_EQ(lowercase("Hello, WORLD 1"), "hello, world 1");
  EXPECT_EQ(lowercase("ΟΔΟΣ"), "οδοσ");  // no final sigma
  EXPECT_EQ(lowercase("İI"), "i\u0307i");
  EXPECT_EQ(lowercase("ÀÉ ẞ Ǆ Ⅷ Ⓐ"), "àé ß ǆ ⅷ ⓐ");
  EXPECT_EQ(lowercase("\U00010D50\uA7CB\uA7DC"), "\U00010D70\u0264\u019B");  // after Unicode 15
  EXPECT_EQ(lowercase(std::string("A\0B", 3)), std::string("a\0b", 3));
}

}  // namespace
}  // namespace ssa
