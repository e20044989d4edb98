#include "tokenizer/regular_expression.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace ssa {
namespace {

/// The matches of the pattern, with | between them.
std::string matches(std::string_view pattern, std::string_view text) {
  std::vector<TextRange> found;
  RegularExpression(pattern).find(text, found);
  std::string shown;
  for (const auto& [begin, end] : found) {
    if (!shown.empty()) shown += '|';
    shown += text.substr(begin, end - begin);
  }
  return shown;
}

TEST(RegularExpression, Translates) {
  EXPECT_EQ(translate_regular_expression("(a|b)c*?d++"), "(a|b)c*?d++");
  EXPECT_EQ(translate_regular_expression("\\p{N}{1,3}+x"), "(?:\\p{N}{1,3})+x");
  EXPECT_EQ(translate_regular_expression("(ab){,2}"), "(ab){0,2}");
  EXPECT_EQ(translate_regular_expression("[^\\p{Han}\\v]"), "[^\\p{sc:Han}\\x{0B}]");
  EXPECT_EQ(translate_regular_expression("\\p{^L}\\P{^L}\\u00e9"), "\\P{L}\\p{L}\\x{00e9}");
}

TEST(RegularExpression, FindsEveryMatch) {
  EXPECT_EQ(matches("\\p{N}{1,3}", "1234567"), "123|456|7");
  EXPECT_EQ(matches("\\p{N}{1,3}+", "1234567 8"), "1234567|8");
  EXPECT_EQ(matches("(?i:'s|'ll)", "it's IT'S we'LL 'ſ"), "'s|'S|'LL|'ſ");
  EXPECT_EQ(matches("^.", "ab\ncd\n"), "a|c");
  EXPECT_EQ(matches(".$", "ab\ncd"), "b|d");
  EXPECT_EQ(matches("\\s+(?!\\S)|\\s+", "a  b \u180E"), " | | ");
  EXPECT_EQ(matches("\\p{L}+", "a\U00010D50\u1C89b"), "a\U00010D50\u1C89b") << "of Unicode 16";
  EXPECT_EQ(matches("", ""), "");
}

TEST(RegularExpression, NothingMatchesAtEveryPlaceOnce) {
  std::vector<TextRange> found;
  RegularExpression("a*").find("baac", found);
  std::vector<std::size_t> ends;
  for (const TextRange& range : found) ends.push_back(range.end);
  EXPECT_EQ(ends, (std::vector<std::size_t>{0, 3, 4}));
}

TEST(RegularExpression, WhatIsNotKnownToMeanTheSameIsRefused) {
  for (const char* pattern :
       {"\\b", "a&&b[c&&d]", "[[a]b]", "[]a]", "(?<n>a)", "\\1", "\\W[\\W]", "\\p{Punct}", "a{2}?",
        "a**", "*a", "a{", "(a", "a)", "(?i:ss)", "(?i:é)", "\\x{110000000}", "\\xe9", "a\\"}) {
    EXPECT_THROW(RegularExpression{pattern}, std::invalid_argument) << pattern;
  }
}

}  // namespace
}  // namespace ssa
