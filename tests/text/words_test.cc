#include "text/words.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace ssa {
namespace {

TEST(Words, AreThoseOfPythonsSplit) {
  EXPECT_EQ(count_words(""), 0);
  EXPECT_EQ(count_words(" one  two\tthree\n"), 3);
  // U+00A0, U+2003, U+0085, U+3000, U+2028, U+001F
  for (const std::string space :
       {"\u00A0", "\u2003", "\u0085", "\u3000", "\u2028", "\x1F", "\v", "\f"}) {
    EXPECT_EQ(count_words("one" + space + "two"), 2) << space;
    EXPECT_TRUE(is_blank(space + " " + space)) << space;
    EXPECT_EQ(without_space_behind("é" + space), "é") << space;
    EXPECT_EQ(without_space_before(space + "é"), "é") << space;
  }
  // U+200B, U+FEFF and U+001B are no white space.
  for (const std::string other : {"\u200B", "\uFEFF", "\x1B"}) {
    EXPECT_EQ(count_words("one" + other + "two"), 1) << other;
    EXPECT_FALSE(is_blank(other)) << other;
  }
}

TEST(Words, OfWhatIsNotValidUtf8) {
  EXPECT_EQ(count_words("a\xFF b\xE2\x80"), 2);
  EXPECT_EQ(without_space_behind("a\x80\x80 "), "a\x80\x80");
}

}  // namespace
}  // namespace ssa
