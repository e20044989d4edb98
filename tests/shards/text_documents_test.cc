#include "text/text_documents.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "shards/token_part.h"
#include "temporary_folder.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

class TextDocumentsTest : public testing::Test {
 protected:
  TextDocumentsTest() { fs::create_directories(folder_); }
  ~TextDocumentsTest() override { fs::remove_all(folder_); }

  /// The documents of a file of this name and content.
  Texts documents(const char* name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    Texts texts;
    left_out_ = for_each_document(folder_ / name, options_,
                                  [&](std::string_view text) { texts.emplace_back(text); });
    return texts;
  }

  std::string error(const char* name, const std::string& content) {
    try {
      documents(name, content);
    } catch (const std::runtime_error& error) {
      return std::string(error.what()).substr(folder_.string().size() + 1);
    }
    return "no error";
  }

  fs::path folder_ = test::temporary_folder();
  DocumentOptions options_;
  LeftOut left_out_;
};

TEST_F(TextDocumentsTest, DocumentsOfText) {
  EXPECT_EQ(documents("a.txt", "one\ntwo\n"), (Texts{"one\ntwo"})) << "the whole file";
  EXPECT_EQ(documents("a.txt", "one\ntwo"), (Texts{"one\ntwo"}));
  EXPECT_EQ(documents("a.txt", "one\n\n<|endoftext|>\n\n two\n<|endoftext|>\n"),
            (Texts{"one\n", "\n two"}));
  EXPECT_EQ(documents("a.txt", "a <|endoftext|>\n <|endoftext|>\nb"),
            (Texts{"a <|endoftext|>\n <|endoftext|>\nb"}))
      << "only a whole line ends a document";
  EXPECT_EQ(documents("a.txt", "\xEF\xBB\xBFone\r\ntwo\r\n<|endoftext|>\r\nthr\ree"),
            (Texts{"one\ntwo", "thr\ree"}));
  options_.document_line = "";
  EXPECT_EQ(documents("a.txt", "one\ntwo\n\nthree"), (Texts{"one\ntwo", "three"}));
}

TEST_F(TextDocumentsTest, EmptyDocumentsAreCounted) {
  const std::string end = "<|endoftext|>\n";
  EXPECT_EQ(documents("a.txt", end + "one\n" + end + " \n\t\n" + end + "two\n" + end),
            (Texts{"one", "two"}));
  EXPECT_EQ(left_out_.empty, 2) << "no document begins behind the last end";
  EXPECT_EQ(documents("a.jsonl", "{\"text\": \"\"}\n\n{\"text\": \"x\"}\n"), (Texts{"x"}));
  EXPECT_EQ(left_out_.empty, 1);
}

TEST_F(TextDocumentsTest, DocumentsOfJson) {
  EXPECT_EQ(documents("a.jsonl",
                      "\xEF\xBB\xBF{\"text\": \"a\\n\\u00e9\"}\r\n {\"x\": 1, \"text\": \"b\"}"),
            (Texts{"a\né", "b"}));
  options_.field = "x";
  EXPECT_EQ(documents("a.jsonl", "{\"text\": \"a\", \"x\": \"b\"}\n"), (Texts{"b"}));
}

TEST_F(TextDocumentsTest, BadLines) {
  const std::string text = "one\n\xFF\nthree\n";
  EXPECT_EQ(error("a.txt", text),
            "a.txt:2: byte 1 (0xff) is not valid UTF-8 (--skip-bad-lines leaves it out)");
  const std::string json =
      "{\"text\": \"a\"}\n{\"x\": 1}\n{\"text\": 1}\n[]\nx\n{\"text\": \"b\"}\n";
  EXPECT_TRUE(
      error("a.jsonl", json).starts_with("a.jsonl:2: there is no field \"text\" (fields: x)"));
  options_.skip_bad_lines = true;
  EXPECT_EQ(documents("a.txt", text), (Texts{"one\nthree"}));
  EXPECT_EQ(left_out_.bad, 1);
  EXPECT_EQ(documents("a.jsonl", json), (Texts{"a", "b"}));
  EXPECT_EQ(left_out_.bad, 4);
}

TEST_F(TextDocumentsTest, ADocumentThatIsRefusedIsNamedByItsFirstLine) {
  const fs::path file = folder_ / "a.txt";
  std::ofstream(file) << "one\n<|endoftext|>\ntwo\nlines\n<|endoftext|>\nthree\n";
  Texts texts;
  const auto work = [&](std::string_view text) {
    if (text.starts_with("two")) throw std::invalid_argument("no");
    texts.emplace_back(text);
  };
  try {
    for_each_document(file, options_, work);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(), file.string() + ":3: no (--skip-bad-lines leaves it out)");
  }
  texts.clear();
  options_.skip_bad_lines = true;
  EXPECT_EQ(for_each_document(file, options_, work).bad, 1);
  EXPECT_EQ(texts, (Texts{"one", "three"}));
}

TEST(HeldOut, ByTextAlone) {
  int small = 0, large = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::string text = "document " + std::to_string(i);
    const bool in_small = is_held_out(text, 0.01), in_large = is_held_out(text, 0.1);
    EXPECT_TRUE(in_large || !in_small);
    small += in_small;
    large += in_large;
    EXPECT_FALSE(is_held_out(text, 0));
  }
  EXPECT_NEAR(small, 100, 40);  // four standard deviations
  EXPECT_NEAR(large, 1000, 120);
}

}  // namespace
}  // namespace ssa
