#include "files/terminal.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace ssa {
namespace {

TEST(Terminal, ControlCharactersAreShownNotObeyed) {
  EXPECT_EQ(printable("a\x1b[31mb\a\x7f\r"), "a\\x1b[31mb\\x07\\x7f\\x0d");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\u009b31m");  // CSI as one character
  EXPECT_EQ(printable("\xE2\x80\xAE"
                      "txt.exe"),
            "\\u202etxt.exe");  // right to left
  EXPECT_EQ(printable("a\xFF"
                      "b\xE2\x82"),
            "a\\xffb\\xe2\\x82");  // no UTF-8
  EXPECT_EQ(printable("tab\tand\nline, é, 中, 👩‍🚀"),
            "tab\tand\nline, é, 中, 👩‍🚀");
  EXPECT_EQ(printable_line("one\ntwo"), "one two");
}

TEST(Terminal, OnlyWhatCanDrawsAgain) {
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(can_redraw(1));
  unsetenv("TERM");
  EXPECT_FALSE(can_redraw(1));
}

}  // namespace
}  // namespace ssa
