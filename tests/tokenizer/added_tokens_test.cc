#include "tokenizer/added_tokens.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ssa {
namespace {

/// "text|<id>|text"
std::string split(std::string_view text, const std::vector<AddedToken>& tokens) {
  std::string shown;
  std::size_t length = 0;
  for (const auto& [part, token] : AddedTokens(tokens).split(text)) {
    if (!shown.empty()) shown += '|';
    shown +=
        token ? std::string("<").append(std::to_string(*token)).append(">") : std::string(part);
    length += part.size();
  }
  EXPECT_EQ(length, text.size());
  return shown;
}

AddedToken token(const char* content, TokenId id) { return {.content = content, .id = id}; }

TEST(AddedTokens, AreFoundAnywhere) {
  const std::vector tokens = {token("<s>", 3), token("</s>", 4)};
  EXPECT_EQ(split("", tokens), "");
  EXPECT_EQ(split("a<s>b</s>", tokens), "a|<3>|b|<4>");
  EXPECT_EQ(split("<s><s>", tokens), "<3>|<3>");
  EXPECT_EQ(split("<s <S> s>", tokens), "<s <S> s>");
  EXPECT_EQ(split("é<s>", tokens), "é|<3>");
  EXPECT_EQ(split("a<s>", {}), "a<s>");
}

TEST(AddedTokens, TheFirstThenTheLongest) {
  const std::vector tokens = {token("ab", 0), token("abc", 1), token("bcd", 2)};
  EXPECT_EQ(split("abcd", tokens), "<1>|d");
  EXPECT_EQ(split("abd", tokens), "<0>|d");
  EXPECT_EQ(split("xbcdabab", tokens), "x|<2>|<0>|<0>");
}

TEST(AddedTokens, TakeWhiteSpaceAround) {
  const AddedToken left{.content = "<m>", .id = 0, .lstrip = true};
  const AddedToken right{.content = "<r>", .id = 1, .rstrip = true};
  EXPECT_EQ(split("a \u3000<m> b", {left}), "a|<0>| b");
  EXPECT_EQ(split("  <m>", {left}), "<0>");
  EXPECT_EQ(split("é<m>", {left}), "é|<0>");
  EXPECT_EQ(split("a <r> \n b", {right}), "a |<1>|b");
  EXPECT_EQ(split("<r> ", {right}), "<1>");
  EXPECT_EQ(split("<r>  <m>", {left, right}), "<1>|<0>");
}

}  // namespace
}  // namespace ssa
