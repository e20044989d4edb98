#include "eval/minimal_pairs.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "fake_model.h"
#include "temporary_folder.h"
#include "tokenizer/small_tokenizer.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

/// The same logits wherever it is asked; they say nothing of the context, so that scores can be
/// worked out by hand.
class FixedModel : public test::FakeModel {
 public:
  explicit FixedModel(torch::Tensor logits) : logits_(std::move(logits)) {}
  torch::Tensor forward(const ModelInput& input) override {
    asked_ += input.wanted.size(0);
    read_ += input.tokens.size(0);
    return logits_.expand({input.wanted.size(0), logits_.size(0)});
  }

  std::int64_t asked_ = 0, read_ = 0;

 private:
  torch::Tensor logits_;
};

class MinimalPairs : public testing::Test {
 protected:
  MinimalPairs() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    std::ofstream(folder_ / "tokenizer.json") << small_tokenizer().dump();
    tokenizer_ = read_tokenizer(folder_ / "tokenizer.json");
  }
  ~MinimalPairs() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  std::vector<ParadigmResult> evaluate(const torch::Tensor& logits,
                                       const std::vector<Paradigm>& paradigms, SentenceScore score,
                                       std::int64_t max_positions = 100) {
    FixedModel model(logits);
    auto results = evaluate_minimal_pairs(model, *tokenizer_, max_positions, paradigms, score,
                                          rounding_of(Precision::float32));
    asked_ = model.asked_;
    read_ = model.read_;
    return results;
  }
  template <class Work>
  std::string error_of(const Work& work) {
    try {
      work();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no error";
  }

  fs::path folder_ = test::temporary_folder();
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::int64_t asked_ = 0, read_ = 0;
};

const std::vector<Paradigm> kTwo = {
    {"a-one", "a", {{"he he", "hell hell"}, {"hell", "he"}, {"he hell", "hell he"}}},
    {"a-two", "a", {{"he he", "hell"}}},
};

TEST_F(MinimalPairs, AConstantModelReachesExactlyHalf) {
  for (const auto score : {SentenceScore::holistic, SentenceScore::pseudo_log_likelihood}) {
    const std::vector<Paradigm> paradigms = {
        {"a-one", "a", {{"he he", "hell he"}, {"he", "hell"}}}};
    const auto results = evaluate(torch::zeros({263}), paradigms, score);
    EXPECT_EQ(results[0].accuracy(), 50.0);
    EXPECT_EQ(results[0].ties, 2);
    EXPECT_EQ(results[0].standard_error(), 0.0);
  }
}

// "he" (261) has probability 1/2, everything else 1/2 together, evenly.
TEST_F(MinimalPairs, HolisticIsTheMeanOverAllTokensAndTheLowerOneWins) {
  torch::Tensor logits = torch::zeros({263}, torch::kDouble);
  logits[261] = std::log(262.0);
  const auto results = evaluate(logits, kTwo, SentenceScore::holistic);
  const double he = std::log(2.0), other = std::log(2.0 * 262);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_NEAR(results[0].scores[0][0], (2 * other + 2 * he) / 4, 1e-12);
  EXPECT_NEAR(results[0].scores[0][1], other, 1e-12);
  EXPECT_NEAR(results[1].scores[0][1], other, 1e-12);
  EXPECT_EQ(results[0].right, 1);  // the second pair is wrong, the third a tie
  EXPECT_EQ(results[0].ties, 1);
  EXPECT_EQ(results[0].accuracy(), 50.0);
  EXPECT_NEAR(results[0].standard_error(), 100 * std::sqrt((1.25 / 3 - 0.25) / 2), 1e-12);
  EXPECT_EQ(results[1].accuracy(), 100.0);
  // Five different sentences of 3 or 4 tokens, each once.
  EXPECT_EQ(asked_, 4 + 4 + 3 + 3 + 4 + 4);
  EXPECT_EQ(read_, asked_);
}

TEST_F(MinimalPairs, PseudoLogLikelihoodIsTheSumOverMaskedTokensAndTheHigherOneWins) {
  torch::Tensor logits = torch::zeros({263}, torch::kDouble);
  logits[261] = std::log(262.0);
  const auto results = evaluate(logits, kTwo, SentenceScore::pseudo_log_likelihood);
  const double he = std::log(0.5), other = std::log(0.5 / 262);
  EXPECT_NEAR(results[0].scores[0][0], 2 * he, 1e-12);
  EXPECT_NEAR(results[0].scores[2][0], he + other, 1e-12);
  EXPECT_NEAR(results[1].scores[0][1], other, 1e-12);
  EXPECT_EQ(results[1].right, 1);
  // Special tokens are not asked for, and every other one costs a sentence.
  EXPECT_EQ(asked_, 2 + 2 + 1 + 1 + 2 + 2);
  EXPECT_EQ(read_, 2 * 4 + 2 * 4 + 3 + 3 + 2 * 4 + 2 * 4);
}

TEST_F(MinimalPairs, PairsWithinRoundingAreCountedAndBoundTheAccuracy) {
  // Right by far, right and wrong within the rounding, a tie, wrong by far; of holistic scores.
  const std::vector<std::string> sentences = {"a", "b", "c", "d", "e"};
  const std::map<std::string, double> scores = {
      {"a", 2.0}, {"b", 5.0}, {"c", 5.0 + 4e-6}, {"d", 5.0}, {"e", 5.0 - 4e-6}};
  const auto scores_of = [&](const std::vector<std::string>& asked) {
    std::vector<double> out;
    for (const std::string& sentence : asked) out.push_back(scores.at(sentence));
    return out;
  };
  const std::vector<Paradigm> paradigms = {
      {"a-one", "a", {{"a", "b"}, {"b", "c"}, {"b", "e"}, {"b", "d"}, {"b", "a"}}}};
  const auto result = evaluate_minimal_pairs(paradigms, scores_of, /*lower_wins=*/true,
                                             rounding_of(Precision::float32))[0];
  EXPECT_EQ(result.close, 3);
  EXPECT_EQ(result.accuracy(), 50.0);
  EXPECT_EQ(result.least_accuracy(), 20.0);
  EXPECT_EQ(result.most_accuracy(), 80.0);
  const Json row = to_json({result})[0];
  EXPECT_EQ(row.at("close"), 3);
  EXPECT_EQ(row.at("least"), 20.0);
  EXPECT_EQ(row.at("most"), 80.0);
}

TEST_F(MinimalPairs, RowsHaveParadigmsPhenomenaAndTheAverage) {
  torch::Tensor logits = torch::zeros({263});
  logits[261] = 1;
  std::vector<Paradigm> paradigms = kTwo;
  paradigms.push_back({"b-three", "b", {{"hell", "he"}}});
  const Json rows = to_json(evaluate(logits, paradigms, SentenceScore::holistic));
  ASSERT_EQ(rows.size(), 6u);
  const std::vector<std::pair<std::string, double>> expected = {{"a-one", 50},    {"a-two", 100},
                                                                {"b-three", 0},   {"mean of a", 75},
                                                                {"mean of b", 0}, {"average", 50}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at("paradigm"), expected[i].first);
    EXPECT_NEAR(rows[i].at("mean").get<double>(), expected[i].second, 1e-12);
  }
  EXPECT_EQ(rows[5].at("items"), 5);
  EXPECT_EQ(rows[5].at("ties"), 1);
}

TEST_F(MinimalPairs, RefusesSentencesThatAreTooLongAndScoresThatAreNotFinite) {
  EXPECT_EQ(error_of([&] { evaluate(torch::zeros({263}), kTwo, SentenceScore::holistic, 3); }),
            "\"he he\": 4 tokens, but model.max_positions = 3");
  const torch::Tensor broken = torch::full({263}, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(error_of([&] { evaluate(broken, kTwo, SentenceScore::holistic); }),
            "\" he he\": its score is not finite");
}

TEST_F(MinimalPairs, ZorroHasTheUngrammaticalSentenceFirst) {
  write("filler-gap-wh_question_object.txt", "bad one .\ngood one .\nbad two .\r\ngood two .\r\n");
  write("binding-principle_a.txt", "bad .\ngood .\n");
  const auto paradigms = read_zorro(folder_);
  ASSERT_EQ(paradigms.size(), 2u);
  EXPECT_EQ(paradigms[0].name, "binding-principle_a");
  EXPECT_EQ(paradigms[1].phenomenon, "filler-gap");
  EXPECT_EQ(paradigms[1].pairs[1], (std::array<std::string, 2>{"good two .", "bad two ."}));
  write("binding-principle_a.txt", "bad .\ngood .\nbad .\n");
  EXPECT_NE(error_of([&] { read_zorro(folder_); }).find("principle_a.txt: 3 lines, but two belong"),
            std::string::npos);
  write("binding-principle_a.txt", "bad .\n\n");
  EXPECT_NE(error_of([&] { read_zorro(folder_); }).find("principle_a.txt:2: is blank"),
            std::string::npos);
  write("binding-principle_a.txt", "bad .\ngood \xFF\n");
  EXPECT_NE(error_of([&] {
              read_zorro(folder_);
            }).find("principle_a.txt:2: byte 6 (0xff) is not valid UTF-8"),
            std::string::npos);
  EXPECT_NE(error_of([&] { read_zorro(folder_ / "none"); }).find("none: no folder of .txt files"),
            std::string::npos);
}

TEST_F(MinimalPairs, BlimpNamesItsSentences) {
  write("x.jsonl",
        "{\"sentence_good\": \"A.\", \"sentence_bad\": \"B.\", \"linguistics_term\": \"binding\", "
        "\"UID\": \"principle_A\"}\n");
  const auto paradigms = read_blimp(folder_);
  ASSERT_EQ(paradigms.size(), 1u);
  EXPECT_EQ(paradigms[0].name, "principle_A");
  EXPECT_EQ(paradigms[0].phenomenon, "binding");
  EXPECT_EQ(paradigms[0].pairs[0], (std::array<std::string, 2>{"A.", "B."}));
  fs::copy_file(folder_ / "x.jsonl", folder_ / "y.jsonl");
  EXPECT_NE(error_of([&] { read_blimp(folder_); }).find("y.jsonl: UID \"principle_A\" is another"),
            std::string::npos);
  for (const char* line : {"{\"sentence_good\": \"A.\"}", "{\"UID\": \"\"}", "[]", "null"}) {
    write("x.jsonl", std::string(line) + "\n");
    EXPECT_NE(error_of([&] { read_blimp(folder_); }).find("x.jsonl:1: \"UID\" is missing"),
              std::string::npos);
  }
  write("x.jsonl", "{\n");
  EXPECT_NE(error_of([&] { read_blimp(folder_); }).find("x.jsonl:1: not valid JSON"),
            std::string::npos);
}

}  // namespace
}  // namespace ssa
