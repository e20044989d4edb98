#include "tokenizer/byte_level.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace ssa {
namespace {

using Words = std::vector<std::string>;

Words words_of(std::string_view text) {
  Words words;
  while (!text.empty()) {
    words.emplace_back(text.substr(0, first_word_length(text)));
    text.remove_prefix(words.back().size());
  }
  return words;
}

TEST(ByteLevel, CharactersStandForBytes) {
  EXPECT_EQ(byte_characters()['a'], "a");
  EXPECT_EQ(byte_characters()[' '], "Ġ");
  EXPECT_EQ(byte_characters()['\n'], "Ċ");
  EXPECT_EQ(byte_characters()[0], "Ā");
  EXPECT_EQ(byte_characters()[0xAD], "Ń");
  EXPECT_EQ(byte_characters()[0xFF], "ÿ");
  std::set<std::string> all;
  std::string spelled, bytes;
  for (int byte = 0; byte < 256; ++byte) {
    all.insert(byte_characters()[byte]);
    spelled += byte_characters()[byte];
    bytes += static_cast<char>(byte);
  }
  EXPECT_EQ(all.size(), 256u);
  EXPECT_EQ(token_bytes(spelled), bytes);
  EXPECT_EQ(token_bytes(""), "");
  EXPECT_EQ(token_bytes("a b"), std::nullopt);  // a space stands for no byte
  EXPECT_EQ(token_bytes("中"), std::nullopt);
}

TEST(ByteLevel, Words) {
  EXPECT_EQ(words_of("Hello my friend, how's 12 it?"),
            (Words{"Hello", " my", " friend", ",", " how", "'s", " 12", " it", "?"}));
  EXPECT_EQ(words_of("it'll we'Ve I'd's ''s 'tis"),
            (Words{"it", "'ll", " we", "'", "Ve", " I", "'d", "'s", " ''", "s", " '", "tis"}));
  EXPECT_EQ(words_of("a1b2"), (Words{"a", "1", "b", "2"}));
  EXPECT_EQ(words_of("x_1"), (Words{"x", "_", "1"}));
}

TEST(ByteLevel, WhiteSpace) {
  EXPECT_EQ(words_of(" "), (Words{" "}));
  EXPECT_EQ(words_of("   "), (Words{"   "}));
  EXPECT_EQ(words_of("a  b"), (Words{"a", " ", " b"}));
  EXPECT_EQ(words_of("a \t b "), (Words{"a", " \t", " b", " "}));
  EXPECT_EQ(words_of("a\tb"), (Words{"a", "\t", "b"}));
  EXPECT_EQ(words_of("a\r\nb\n\n"), (Words{"a", "\r", "\n", "b", "\n\n"}));
  EXPECT_EQ(words_of("a\u00A0\u3000b"), (Words{"a", "\u00A0", "\u3000", "b"}));
  EXPECT_EQ(words_of("a \u3000"), (Words{"a", " \u3000"}));
}

TEST(ByteLevel, OtherScripts) {
  EXPECT_EQ(words_of("e\u0301t"), (Words{"e", "\u0301", "t"}));
  EXPECT_EQ(words_of("naïve Ⅷ½ 中文"), (Words{"naïve", " Ⅷ½", " 中文"}));
  EXPECT_EQ(words_of("👨\u200D👩 ok"), (Words{"👨\u200D👩", " ok"}));
  EXPECT_EQ(words_of(std::string_view("a\0 b", 4)), (Words{"a", std::string(1, '\0'), " b"}));
}

}  // namespace
}  // namespace ssa
