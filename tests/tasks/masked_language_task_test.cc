#include "tasks/masked_language_task.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "temporary_folder.h"
#include "tokenizer/small_tokenizer.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

constexpr TokenId kMask = 0, kBegin = 1, kEnd = 2;

std::vector<std::int64_t> ids_of(const torch::Tensor& tensor) {
  const torch::Tensor plain = tensor.contiguous();
  return {plain.const_data_ptr<std::int64_t>(),
          plain.const_data_ptr<std::int64_t>() + plain.numel()};
}

class MaskedLanguageTest : public testing::Test {
 protected:
  MaskedLanguageTest() {
    fs::create_directories(folder_);
    write("tokenizer.json", small_tokenizer().dump());
    write("dev.txt", "d e f\ng h i\n");
    config_.task.name = TaskName::mlm;
    config_.task.tokenizer = (folder_ / "tokenizer.json").string();
    config_.task.validation_text = {(folder_ / "dev.txt").string()};
    config_.model.input = InputKind::tokens;
    config_.model.causal = false;
    config_.model.vocabulary = 263;
    config_.model.pad_id = 262;
    config_.model.max_positions = 32;
    config_.train.batch = 4;
    config_.train.seed = 3;
  }
  ~MaskedLanguageTest() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  MaskedLanguageTask task(const std::string& text) {
    write("train.txt", text);
    config_.task.text = {(folder_ / "train.txt").string()};
    return MaskedLanguageTask(config_);
  }
  std::string error_of(const Config& config) {
    try {
      const MaskedLanguageTask made(config);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no error";
  }
  /// The sentence that a view shows, with its targets put back.
  std::vector<std::vector<std::int64_t>> sentences(const Batch& batch) {
    auto tokens = ids_of(batch.inputs.tokens);
    const auto wanted = ids_of(batch.inputs.wanted), targets = ids_of(batch.targets);
    for (std::size_t i = 0; i < wanted.size(); ++i) tokens[wanted[i]] = targets[i];
    std::vector<std::vector<std::int64_t>> out;
    const auto cu = ids_of(batch.inputs.cu_lengths);
    for (std::size_t s = 0; s + 1 < cu.size(); ++s) {
      out.emplace_back(tokens.begin() + cu[s], tokens.begin() + cu[s + 1]);
    }
    return out;
  }

  fs::path folder_ = test::temporary_folder();
  Config config_;
};

// A letter is two tokens here: the space before it and itself.
TEST_F(MaskedLanguageTest, TheNumberOfPatternsIsThatOfTheSource) {
  const MaskingRecipe recipe = masking_recipe(Masking::babyberta);
  const std::map<std::int64_t, std::int64_t> expected = {{0, 0}, {1, 1},  {2, 1},   {3, 3},
                                                         {4, 6}, {5, 10}, {100, 10}};
  for (const auto& [maskable, patterns] : expected) EXPECT_EQ(recipe.patterns(maskable), patterns);
  EXPECT_EQ(task("a b c\nhe he he\nx y\n").views(), 10 + 3);
  config_.task.masking = Masking::roberta;
  EXPECT_EQ(task("a b c\nhe he he\nx y\n").views(), 2);
}

TEST_F(MaskedLanguageTest, APassShowsEveryViewOnce) {
  config_.train.batch = 13;
  for (const char* order : {"shuffle", "file"}) {
    config_.task.order = choice_named<TextOrder>("order", order);
    const MaskedLanguageTask made = task("a b c\nhe he he\n");
    ASSERT_EQ(made.views(), 13);
    std::map<std::vector<std::int64_t>, int> counts;
    const auto shown = sentences(made.training_batch(0, 0));
    for (const auto& sentence : shown) ++counts[sentence];
    ASSERT_EQ(counts.size(), 2u);
    EXPECT_EQ((counts[{kBegin, 261, 261, 261, kEnd}]), 3);
    // In the file's order the ten views of the first sentence come first.
    if (config_.task.order == TextOrder::file) {
      for (int i = 0; i < 10; ++i) EXPECT_EQ(shown[i], shown[0]);
      EXPECT_EQ(shown[10], (std::vector<std::int64_t>{kBegin, 261, 261, 261, kEnd}));
    }
  }
}

TEST_F(MaskedLanguageTest, PatternsComeAgainInTheNextPassForBabybertaAndNotForRoberta) {
  config_.train.batch = 10;
  config_.task.order = TextOrder::file;
  for (const bool drawn_before : {true, false}) {
    config_.task.masking = drawn_before ? Masking::babyberta : Masking::roberta;
    const MaskedLanguageTask made = task("a b c d e f g h i j k l\n");
    const auto passes_of = [&](std::int64_t step) {
      return ids_of(made.training_batch(step, 0).inputs.tokens);
    };
    EXPECT_EQ(passes_of(0) == passes_of(1), drawn_before);
  }
}

TEST_F(MaskedLanguageTest, ABatchIsAFunctionOfSeedStepAndSlice) {
  const std::string text = "a b c d\ne f g h\ni j k l m\nn o p\n";
  const MaskedLanguageTask made = task(text);
  const torch::Tensor first = made.training_batch(2, 0).inputs.tokens;
  made.validation_batch(0);
  made.training_batch(1, 0);
  EXPECT_TRUE(torch::equal(task(text).training_batch(2, 0).inputs.tokens, first));
  EXPECT_FALSE(torch::equal(made.training_batch(3, 0).inputs.tokens, first));
  EXPECT_TRUE(
      torch::equal(made.validation_batch(0).inputs.tokens, made.validation_batch(0).inputs.tokens));
  config_.train.accumulation = 2;
  EXPECT_TRUE(torch::equal(task(text).training_batch(1, 0).inputs.tokens, first));
  config_.train.seed = 4;
  EXPECT_FALSE(torch::equal(task(text).training_batch(1, 0).inputs.tokens, first));
}

/// Over many tokens: which share is chosen, and what became of it.
struct Shares {
  double chosen = 0, masked = 0, kept = 0, other = 0, tokens = 0;
  std::set<std::int64_t> others;
};

TEST_F(MaskedLanguageTest, SharesAreTheRecipes) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "a b c d e f g h i j k l m\n";  // 26 maskable tokens
  config_.train.batch = 400;
  for (const std::string masking : {"babyberta", "roberta"}) {
    config_.task.masking = choice_named<Masking>("masking", masking);
    const MaskedLanguageTask made = task(text);
    Shares shares;
    for (std::int64_t step = 0; step < 10; ++step) {
      const Batch batch = made.training_batch(step, 0);
      const auto tokens = ids_of(batch.inputs.tokens), wanted = ids_of(batch.inputs.wanted),
                 targets = ids_of(batch.targets);
      shares.tokens += 400 * 26;
      shares.chosen += static_cast<double>(wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const std::int64_t now = tokens[wanted[i]];
        ASSERT_GT(targets[i], kEnd) << "a special token was chosen";
        shares.masked += now == kMask;
        shares.kept += now == targets[i];
        shares.other += now != kMask && now != targets[i];
        if (now != targets[i] && now != kMask) shares.others.insert(now);
      }
    }
    const bool baby = masking == "babyberta";
    // 104 000 tokens, 15 600 chosen: three standard errors are 0.0033 of 0.15, 0.0096 of 0.8. An
    // empty pattern (0.85^26 = 1.5 %) is drawn again by babyberta, which raises its share.
    EXPECT_NEAR(shares.chosen / shares.tokens, baby ? 0.15 / (1 - std::pow(0.85, 26)) : 0.15,
                0.0034);
    EXPECT_NEAR(shares.masked / shares.chosen, baby ? 0.9 : 0.8, 0.0097);
    EXPECT_NEAR(shares.other / shares.chosen, 0.1, 0.0075);
    EXPECT_NEAR(shares.kept / shares.chosen, baby ? 0.0 : 0.1, 0.0075);
    // 1560 draws of 257 (babyberta: ids 6 and above) or 263 ids.
    EXPECT_EQ(*shares.others.begin() >= 6, baby);
    EXPECT_GT(shares.others.size(), 240u);
  }
}

TEST_F(MaskedLanguageTest, BabybertaAlwaysAsksForSomething) {
  config_.train.batch = 300;
  const MaskedLanguageTask made =
      task("he he he\n");  // 0.85^3 = 61 % of patterns are empty at first
  const Batch batch = made.training_batch(0, 0);
  const auto cu = ids_of(batch.inputs.cu_lengths);
  std::vector<int> asked(cu.size() - 1, 0);
  for (const std::int64_t place : ids_of(batch.inputs.wanted)) ++asked[place / 5];
  for (const int count : asked) EXPECT_GE(count, 1);
}

TEST_F(MaskedLanguageTest, LossIsTheMeanOverChosenTokensAndZeroWithoutAny) {
  const MaskedLanguageTask made = task("a b c\n");
  const Batch batch = made.training_batch(0, 0);
  const std::int64_t count = batch.targets.size(0);
  const torch::Tensor logits = torch::randn({count, 263}, torch::kDouble).requires_grad_();
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto id = batch.targets[i].item<std::int64_t>();
    sum += (logits[i].exp().sum().log() - logits[i][id]).item<double>();
  }
  EXPECT_NEAR(made.loss(logits, batch).item<double>(), sum / static_cast<double>(count), 1e-12);
  const torch::Tensor best = torch::one_hot(batch.targets, 263).to(torch::kDouble);
  EXPECT_EQ(made.metrics(best, batch).at("wrong"), 0);
  EXPECT_EQ(made.metrics(-best, batch).at("wrong"), 1);
  const Batch nothing{batch.inputs, torch::empty({0}, torch::kLong)};
  const torch::Tensor none = torch::empty({0, 263}).requires_grad_();
  EXPECT_EQ(made.loss(none, nothing).item<double>(), 0);
  made.loss(none, nothing).backward();
}

TEST_F(MaskedLanguageTest, SaysWhatItRead) {
  config_.train.batch = 4;
  const auto notes = task("a b c\nx y\n").notes();
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_TRUE(
      notes[0].ends_with("train.txt: 2 lines, 1 sentence; left out: 1 of fewer than 3 words"));
  EXPECT_EQ(notes[2], "one pass: 10 views of 1 sentence, 3 steps of 4; babyberta masking");
  EXPECT_EQ(task("a b c\n").progress(4).at("pass"), 2);
}

TEST_F(MaskedLanguageTest, RefusesWhatDoesNotFit) {
  task("a b c\n");
  Config other = config_;
  other.model.input = InputKind::scalar;
  EXPECT_NE(error_of(other).find("reads token ids in both directions"), std::string::npos);
  other = config_;
  other.model.vocabulary = 262;
  EXPECT_NE(error_of(other).find("has ids up to 262, but model.vocabulary = 262"),
            std::string::npos);
  other = config_;
  other.task.text = {};
  EXPECT_NE(error_of(other).find("task.text is empty"), std::string::npos);
  other = config_;
  other.task.validation_text = {};
  EXPECT_NE(error_of(other).find("task.validation_text is empty"), std::string::npos);
  other.train.eval_batches = 0;
  EXPECT_EQ(error_of(other), "no error");
  other = config_;
  other.task.text = {"nowhere.txt"};
  EXPECT_NE(error_of(other).find("task.text: \"nowhere.txt\": no such file"), std::string::npos);
  write("special.txt", "<mask> <mask> <mask>\n");
  other = config_;
  other.task.text = {(folder_ / "special.txt").string()};
  EXPECT_NE(error_of(other).find("nothing to mask"), std::string::npos);
}

}  // namespace
}  // namespace ssa
