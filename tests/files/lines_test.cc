#include "files/lines.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "temporary_folder.h"

namespace ssa {
namespace {

class Lines : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(file_); }

  void write(const std::string& text) const { std::ofstream(file_, std::ios::binary) << text; }

  std::vector<std::string> lines() const {
    std::vector<std::string> found;
    for_each_line(file_, [&](std::string_view line) { found.emplace_back(line); });
    return found;
  }

  const std::string file_ = test::temporary_folder().string() + ".txt";
};

TEST_F(Lines, WhatEditorsPutAroundLinesIsNoText) {
  write("\xEF\xBB\xBFone\r\ntwo\n\r\nth\rree\xEF\xBB\xBF");
  EXPECT_EQ(lines(), (std::vector<std::string>{"one", "two", "", "th\rree\xEF\xBB\xBF"}));
  std::vector<TextLine> found;
  for_each_text_line(file_, [&](const TextLine& line) { found.push_back(line); });
  EXPECT_TRUE(found[0].byte_order_mark && found[0].carriage_return && found[0].ended);
  EXPECT_FALSE(found[1].byte_order_mark || found[1].carriage_return);
  EXPECT_TRUE(!found[3].ended && found[3].number == 4);
}

TEST_F(Lines, ErrorsNameFileAndLine) {
  write("a\nb\n");
  try {
    for_each_line(file_, [](std::string_view line) {
      if (line == "b") throw std::invalid_argument("is bad");
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(), file_ + ":2: is bad");
  }
}

TEST_F(Lines, TextIsUtf8) {
  write(
      "\xEF\xBB\xBF"
      "1, 2\n");
  EXPECT_EQ(read_text(file_), "1, 2\n");
  write("ab\xFF");
  try {
    read_text(file_);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(), file_ + ": byte 3 (0xff) is not valid UTF-8");
  }
}

TEST_F(Lines, APipeIsReadWhenItsWriterComesAndRefusedWithout) {
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    write("late\n");
  });
  EXPECT_EQ(lines(), std::vector<std::string>{"late"});
  writer.join();
  try {
    lines();
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(), file_ + ": is a pipe that no process writes to (waited 5 s)");
  }
}

}  // namespace
}  // namespace ssa
