#include "text/corpus.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "files/data_file.h"
#include "temporary_folder.h"
#include "tokenizer/small_tokenizer.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

class CorpusTest : public testing::Test {
 protected:
  CorpusTest() {
    fs::create_directories(folder_);
    tokenizer_ = read_tokenizer(write("tokenizer.json", small_tokenizer().dump()));
  }
  ~CorpusTest() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }

  std::string error_of(const fs::path& file, const CorpusOptions& options) const {
    try {
      Corpus::read({file}, *tokenizer_, options);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no error";
  }

  std::vector<TokenId> sentence(const Corpus& corpus, std::int64_t i) const {
    return {corpus[i].begin(), corpus[i].end()};
  }

  fs::path folder_ = test::temporary_folder();
  std::unique_ptr<const Tokenizer> tokenizer_;
};

TEST_F(CorpusTest, KeepsWhatIsLongAndShortEnoughAndSaysWhatItLeftOut) {
  const fs::path first =
      write("a.txt", "\xEF\xBB\xBFhe he he\r\n\n \t \nhe he\nx y z\nhe he he he");
  const fs::path second = write("b.txt", "\nhell hell hell\n");
  const CorpusOptions options{.least_words = 3, .most_tokens = 6};
  const Corpus corpus = Corpus::read({first, second}, *tokenizer_, options);
  ASSERT_EQ(corpus.size(), 3);
  EXPECT_EQ(sentence(corpus, 0), (std::vector<TokenId>{1, 261, 261, 261, 2}));
  EXPECT_EQ(sentence(corpus, 1), (std::vector<TokenId>{1, 261, 261, 261, 261, 2}));
  EXPECT_EQ(sentence(corpus, 2), (std::vector<TokenId>{1, 262, 262, 262, 2}));
  EXPECT_EQ(corpus.tokens(), 16);
  EXPECT_EQ(corpus.reports()[0].text(options),
            first.string() +
                ": 6 lines, 2 sentences; left out: 2 blank, 1 of fewer than 3 words, 1 of more "
                "than 6 tokens; \\r\\n ends 1 line; begins with a byte order mark");
  EXPECT_EQ(corpus.reports()[1].text(options),
            second.string() + ": 2 lines, 1 sentence; left out: 1 blank");
}

TEST_F(CorpusTest, NamesTheLineThatIsNotUtf8OrLeavesItOut) {
  const fs::path file = write("a.txt", "he\nh\xFF\nhe\n");
  EXPECT_TRUE(error_of(file, {}).starts_with(file.string() + ":2: ")) << error_of(file, {});
  const Corpus corpus = Corpus::read({file}, *tokenizer_, {.skip_bad_lines = true});
  EXPECT_EQ(corpus.size(), 2);
  EXPECT_EQ(corpus.reports()[0].bad, 1);
  const fs::path padded = write("b.txt", "he\nhe <mask>\n");
  EXPECT_TRUE(
      error_of(padded, {.padding = 0}).starts_with(padded.string() + ":2: the token of padding"));
  EXPECT_EQ(Corpus::read({padded}, *tokenizer_, {.padding = 0, .skip_bad_lines = true}).size(), 1);
}

TEST_F(CorpusTest, RefusesFilesWithoutSentencesAndFoldersAndMissingFiles) {
  EXPECT_EQ(error_of(write("a.txt", "\n\n"), {}),
            "no sentence in the text: " + (folder_ / "a.txt").string() +
                ": 2 lines, 0 sentences; left out: 2 blank");
  EXPECT_EQ(error_of(folder_, {}), folder_.string() + ": is a folder, not a file");
  EXPECT_EQ(error_of(folder_ / "none", {}), (folder_ / "none").string() + ": no such file");
}

TEST_F(CorpusTest, DataLieWhereTheyStandOrBelowTheFolderOfTheEnvironment) {
  const fs::path file = write("a.txt", "x");
  EXPECT_EQ(find_data(file.string(), "task.text"), file);
  ASSERT_EQ(setenv("SSA_DATA", folder_.c_str(), 1), 0);
  EXPECT_EQ(find_data("a.txt", "task.text"), file);
  try {
    find_data("b.txt", "task.text");
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("task.text"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find((folder_ / "b.txt").string()), std::string::npos);
  }
}

}  // namespace
}  // namespace ssa
