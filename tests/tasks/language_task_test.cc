#include "tasks/language_task.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <fstream>
#include <set>

#include "shards/token_shards_writer.h"
#include "temporary_folder.h"
#include "tokenizer/small_tokenizer.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

/// Shards of a few documents, in the ids of small_tokenizer.
class LanguageTaskTest : public testing::Test {
 protected:
  static constexpr TokenId kEnd = 2;

  void SetUp() override {
    fs::create_directories(folder_);
    std::ofstream(folder_ / "tokenizer.json") << small_tokenizer();
    write_tokens("train", documents_);
    write_tokens("held", {{7, 8, 9}, {10, 11, 12, 13, 14, 15}});
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write_tokens(const std::string& name, const std::vector<std::vector<TokenId>>& documents) {
    TokenShardsWriter writer(folder_ / name, TokenType::uint16);
    for (std::vector<TokenId> ids : documents) {
      ids.push_back(kEnd);
      writer.add(ids);
    }
    writer.finish();
  }

  Config config(const Settings& more = {}) const {
    const auto path = [&](const char* name) { return (folder_ / name).string(); };
    Settings settings = {{"model", "preset", "nemotron-tiny", "test"},
                         {"model", "vocabulary", 263, "test"},
                         {"task", "name", "lm", "test"},
                         {"task", "tokenizer", path("tokenizer.json"), "test"},
                         {"task", "tokens", {path("train")}, "test"},
                         {"task", "validation_tokens", {path("held")}, "test"},
                         {"task", "length", 4, "test"},
                         {"train", "batch", 2, "test"}};
    settings.insert(settings.end(), more.begin(), more.end());
    return make_config(settings, "test");
  }

  std::string error_of(const Settings& more) const {
    try {
      LanguageTask task(config(more));
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }

  /// All the tokens on disk, one document after another.
  std::vector<std::int64_t> stream() const {
    std::vector<std::int64_t> ids;
    for (const auto& document : documents_) {
      ids.insert(ids.end(), document.begin(), document.end());
      ids.push_back(kEnd);
    }
    return ids;
  }

  const std::vector<std::vector<TokenId>> documents_ = {
      {10, 11, 12, 13, 14, 15}, {20}, {30, 31, 32}, {40, 41, 42, 43, 44, 45, 46, 47}};
  const fs::path folder_ = test::temporary_folder();
};

std::vector<std::int64_t> values(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.flatten().contiguous();
  return {flat.const_data_ptr<std::int64_t>(), flat.const_data_ptr<std::int64_t>() + flat.numel()};
}

TEST_F(LanguageTaskTest, APassHasEveryTargetOnce) {
  // 22 tokens: 21 targets, five sequences of four, one target left out.
  for (const char* order : {"file", "shuffle"}) {
    const LanguageTask task(config({{"task", "order", order, "test"},
                                    {"task", "documents", "across", "test"},
                                    {"train", "batch", 1, "test"}}));
    ASSERT_EQ(task.sequences(), 5);
    const std::vector<std::int64_t> ids = stream();
    std::set<std::int64_t> first;
    for (std::int64_t step = 0; step < 5; ++step) {
      const Batch batch = task.training_batch(step, 0);
      const auto inputs = values(batch.inputs.tokens), targets = values(batch.targets);
      ASSERT_EQ(batch.inputs.tokens.sizes(), (std::vector<std::int64_t>{1, 4}));
      EXPECT_FALSE(batch.inputs.cu_lengths.defined());
      const auto at = std::ranges::search(ids, inputs).begin() - ids.begin();
      EXPECT_EQ(at % 4, 0);
      first.insert(at);
      EXPECT_EQ(targets, std::vector(ids.begin() + at + 1, ids.begin() + at + 5));
      if (std::string(order) == "file") {
        EXPECT_EQ(at, 4 * step);
      }
    }
    EXPECT_EQ(first.size(), 5U);
  }
}

TEST_F(LanguageTaskTest, DocumentsApartAreSequencesOfTheirOwn) {
  const LanguageTask task(config({{"task", "order", "file", "test"}}));
  // Tokens 0 to 3: one piece. 4 to 7: 14 15 | END 20, the last of them followed by END.
  const Batch batch = task.training_batch(0, 0);
  EXPECT_EQ(values(batch.inputs.tokens),
            (std::vector<std::int64_t>{10, 11, 12, 13, 14, 15, kEnd, 20}));
  EXPECT_EQ(values(batch.inputs.cu_lengths), (std::vector<std::int64_t>{0, 4, 6, 8}));
  EXPECT_EQ(values(batch.targets), (std::vector<std::int64_t>{11, 12, 13, 14, 15, kEnd, 20, kEnd}));
  EXPECT_FALSE(batch.inputs.wanted.defined());
}

TEST_F(LanguageTaskTest, AnEndAtEitherEndOfASequenceLeavesNoEmptyOne) {
  const auto lengths = [&](const std::vector<std::vector<TokenId>>& documents, std::int64_t step) {
    write_tokens("train", documents);
    const LanguageTask task(
        config({{"task", "order", "file", "test"}, {"train", "batch", 1, "test"}}));
    return values(task.training_batch(step, 0).inputs.cu_lengths);
  };
  using Lengths = std::vector<std::int64_t>;
  EXPECT_EQ(lengths({{11, 12, 13}, {14, 15, 16, 17}}, 0), (Lengths{0, 3, 4}));   // token 3
  EXPECT_EQ(lengths({{11, 12, 13, 14}, {15, 16, 17, 18}}, 0), (Lengths{0, 4}));  // token 4
  EXPECT_EQ(lengths({{11, 12, 13, 14}, {15, 16, 17, 18}}, 1), (Lengths{0, 4}));
}

TEST_F(LanguageTaskTest, ShufflesAnewInEachPassAndBySeed) {
  const auto order = [&](std::int64_t seed, std::int64_t pass) {
    const LanguageTask task(
        config({{"train", "seed", seed, "test"}, {"train", "batch", 1, "test"}}));
    std::vector<std::int64_t> firsts;
    for (std::int64_t i = 0; i < 5; ++i) {
      firsts.push_back(values(task.training_batch(5 * pass + i, 0).inputs.tokens)[0]);
    }
    return firsts;
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  std::set<std::vector<std::int64_t>> orders;
  for (std::int64_t pass = 0; pass < 4; ++pass) orders.insert(order(1, pass));
  for (std::int64_t seed = 2; seed < 5; ++seed) orders.insert(order(seed, 0));
  EXPECT_GT(orders.size(), 4U);
}

TEST_F(LanguageTaskTest, TwoBatchesAreAccumulatedAsOne) {
  const LanguageTask one(config({{"train", "batch", 4, "test"}}));
  const LanguageTask two(config({{"train", "accumulation", 2, "test"}}));
  const auto together = values(one.training_batch(1, 0).inputs.tokens);
  auto parts = values(two.training_batch(1, 0).inputs.tokens);
  for (const std::int64_t id : values(two.training_batch(1, 1).inputs.tokens)) parts.push_back(id);
  EXPECT_EQ(parts, together);
}

TEST_F(LanguageTaskTest, LossIsTheMeanOfTheModelsCrossEntropies) {
  const Config c = config();
  const LanguageTask task(c);
  const auto model = make_model(c.model, 1);
  const Batch batch = task.training_batch(0, 0);
  const auto logits = model->forward({batch.inputs.tokens, batch.inputs.cu_lengths});
  const auto expected = torch::cross_entropy_loss(logits, batch.targets);
  const auto loss = task.loss(task.output(*model, batch), batch);
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-5);
}

TEST_F(LanguageTaskTest, RefusesWhatDoesNotFit) {
  EXPECT_EQ(error_of({}), "");
  EXPECT_NE(error_of({{"model", "preset", "gpt2-icl-tiny", "test"}}).find("needs a decoder"),
            std::string::npos);
  EXPECT_NE(error_of({{"task", "tokens", Json::array(), "test"}}).find("task.tokens is empty"),
            std::string::npos);
  EXPECT_NE(error_of({{"task", "tokens", {"nowhere/x"}, "test"}}).find("task.tokens"),
            std::string::npos);
  EXPECT_NE(error_of({{"task", "length", 65, "test"}}).find("above model.max_positions = 64"),
            std::string::npos);
  EXPECT_NE(error_of({{"task", "length", 30, "test"}}).find("no sequence of task.length = 30"),
            std::string::npos);
  EXPECT_NE(error_of({{"model", "vocabulary", 262, "test"}}).find("has ids up to 262"),
            std::string::npos);
  EXPECT_NE(error_of({{"task", "tokenizer", "", "test"}}).find("task.tokenizer is empty"),
            std::string::npos);
  std::ofstream(folder_ / "train.json")
      << R"({"tokenizer": "other.json", "inputs": [], "held_out": null, "recipe": {)"
      << R"("tokenizer": "fnv1a64:0", "vocabulary": 9, "end_token": {"token": "a", "id": 0}}})";
  EXPECT_NE(error_of({}).find("its tokens are of other.json, not of task.tokenizer"),
            std::string::npos);
}

}  // namespace
}  // namespace ssa
