#include "generate/generation.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <array>
#include <cmath>
#include <map>
#include "fake_model.h"

namespace ssa {
namespace {

torch::Tensor logits_of(const std::vector<double>& probabilities) {
  return torch::tensor(probabilities, torch::kFloat64).log().to(torch::kFloat32);
}

std::map<TokenId, double> shares(const torch::Tensor& logits, Sampling sampling,
                                 std::int64_t draws = 20000) {
  std::map<TokenId, double> out;
  for (std::int64_t place = 0; place < draws; ++place) {
    out[sample_token(logits, sampling, 0, place)] += 1.0 / static_cast<double>(draws);
  }
  return out;
}

// Five standard errors of a share over 20 000 draws: at most 5·0.5/141.
constexpr double kNear = 0.018;

TEST(SampleToken, DrawsTheModelsDistribution) {
  const auto found = shares(logits_of({0.1, 0.6, 0.3}), {});
  EXPECT_NEAR(found.at(0), 0.1, kNear);
  EXPECT_NEAR(found.at(1), 0.6, kNear);
  EXPECT_NEAR(found.at(2), 0.3, kNear);
}

TEST(SampleToken, TemperatureTakesPowersOfIt) {
  const auto found = shares(logits_of({0.1, 0.6, 0.3}), {.temperature = 0.5});
  const double sum = 0.01 + 0.36 + 0.09;
  EXPECT_NEAR(found.at(0), 0.01 / sum, kNear);
  EXPECT_NEAR(found.at(1), 0.36 / sum, kNear);
}

TEST(SampleToken, TopKAndTopPLeaveTheLeastLikelyOut) {
  const auto logits = logits_of({0.1, 0.45, 0.25, 0.2});
  const auto two = shares(logits, {.top_k = 2});
  EXPECT_EQ(two.size(), 2U);
  EXPECT_NEAR(two.at(1), 0.45 / 0.7, kNear);
  // 0.45 + 0.25 is less than 0.75, so a third token belongs to it; 0.69 is reached by two.
  EXPECT_EQ(shares(logits, {.top_p = 0.75}).size(), 3U);
  EXPECT_EQ(shares(logits, {.top_p = 0.69}).size(), 2U);
  // Of the two tokens that top_k leaves, the first alone has 0.64.
  EXPECT_EQ(shares(logits, {.top_k = 2, .top_p = 0.6}).size(), 1U);
  EXPECT_EQ(shares(logits, {.top_k = 100}).size(), 4U);
}

TEST(SampleToken, GreedyIsTheFirstOfTheLargest) {
  const auto logits = torch::tensor({1.0, 3.0, 3.0});
  EXPECT_EQ(sample_token(logits, {.temperature = 0}, 0, 0), 1);
  EXPECT_EQ(sample_token(logits, {.top_k = 1}, 3, 7), sample_token(logits, {.top_k = 1}, 0, 0));
}

TEST(SampleToken, PromptPlaceAndSeedDrawApart) {
  const auto logits = torch::zeros({1000});
  const auto draw = [&](std::uint64_t seed, std::int64_t prompt, std::int64_t place) {
    return sample_token(logits, {.seed = seed}, prompt, place);
  };
  EXPECT_EQ(draw(1, 2, 3), draw(1, 2, 3));
  EXPECT_NE(draw(1, 2, 3), draw(2, 2, 3));
  EXPECT_NE(draw(1, 2, 3), draw(1, 3, 3));
  EXPECT_NE(draw(1, 2, 3), draw(1, 2, 4));
}

TEST(SampleToken, HugeAndEqualLogitsAreNoTrouble) {
  EXPECT_EQ(sample_token(torch::tensor({-3e38, 3e38}), {.temperature = 1e-3}, 0, 0), 1);
  EXPECT_EQ(shares(torch::tensor({3e38, 3e38}), {}, 100).size(), 2U);
}

/// One id for each byte.
class Bytes : public Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view text, bool) const override {
    return encode_ordinary(text);
  }
  std::vector<TokenId> encode_ordinary(std::string_view text) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(std::span<const TokenId> ids, bool) const override {
    std::string text;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0x80) {
        text.push_back(static_cast<char>(ids[i]));
      } else if (i + 1 < ids.size()) {  // characters of two bytes are all that the tests have
        text += {static_cast<char>(ids[i]), static_cast<char>(ids[i + 1])};
        ++i;
      } else {
        text += "\xEF\xBF\xBD";
      }
    }
    return text;
  }
  std::optional<TokenId> find(std::string_view) const override { return std::nullopt; }
  bool is_special(TokenId) const override { return false; }
  TokenId size() const override { return 256; }
};

/// Says the same text after any prompt of `start` tokens.
class Parrot : public test::FakeModel {
 public:
  Parrot(std::string text, std::int64_t start) : text_(std::move(text)), start_(start) {}
  torch::Tensor forward(const ModelInput& input) override {
    const torch::Tensor lengths = input.cu_lengths.diff();
    const auto logits = torch::zeros({lengths.size(0), 256});
    for (std::int64_t s = 0; s < lengths.size(0); ++s) {
      logits[s][static_cast<unsigned char>(text_.at(lengths[s].item<std::int64_t>() - start_))] = 1;
    }
    return logits;
  }

 private:
  std::string text_;
  std::int64_t start_;
};

struct Said {
  GeneratedText text;
  std::vector<std::string> pieces;
};

Said say(const std::string& text, GenerationOptions options, std::size_t most_pieces = 1000) {
  Parrot parrot(text, 1);
  ModelConfig config;
  config.max_positions = 100;
  config.vocabulary = 256;
  options.sampling.temperature = 0;
  options.cache = false;
  Said said;
  const std::vector<std::vector<TokenId>> prompts = {{'>'}};
  said.text = generate(parrot, config, Bytes(), prompts, 0, options,
                       [&](std::size_t, const std::string& piece) {
                         said.pieces.push_back(piece);
                         return said.pieces.size() < most_pieces;
                       })[0];
  return said;
}

using Pieces = std::vector<std::string>;

TEST(Generate, ShowsWholeCharactersAsTheyCome) {
  const Said said = say("aé.", {.most_tokens = 4});
  EXPECT_EQ(said.pieces, (Pieces{"a", "é", "."}));
  EXPECT_EQ(said.text.text, "aé.");
  EXPECT_EQ(said.text.ending, Ending::most_tokens);
  EXPECT_EQ(said.text.tokens, 4);
}

TEST(Generate, AStopTextEndsItAndIsNeverShown) {
  const Said said = say("one, two. three", {.most_tokens = 15, .stop = {"two.", "xyz"}});
  EXPECT_EQ(said.text.text, "one, ");
  EXPECT_EQ(said.text.ending, Ending::stop_text);
  EXPECT_EQ(said.pieces, (Pieces{"o", "n", "e", ",", " "}));
  // What only begins like a stop text is shown once that is clear, and at the end.
  EXPECT_EQ(say("tw! tw", {.most_tokens = 6, .stop = {"two."}}).pieces, (Pieces{"tw!", " ", "tw"}));
}

TEST(Generate, EndsAtTheEndTokenAndWhereAsked) {
  const Said ended = say("ab|cd", {.most_tokens = 5, .end = '|'});
  EXPECT_EQ(ended.text.text, "ab");
  EXPECT_EQ(ended.text.ending, Ending::end_token);
  EXPECT_EQ(ended.text.tokens, 3);
  const Said stopped = say("abcd", {.most_tokens = 4}, 2);
  EXPECT_EQ(stopped.text.text, "ab");
  EXPECT_EQ(stopped.text.ending, Ending::interrupted);
}

// Prompts of several lengths, which end after one another.
TEST(Generate, TextsOfABatchAreThoseOfOneAtATime) {
  ModelConfig config = make_config({{"model", "preset", "gpt2-tiny", "test"}}, "test").model;
  config.init_std = 0.3;
  config.max_positions = 20;
  const auto model = make_model(config, 1);
  model->to(torch::kFloat64);
  const std::vector<std::vector<TokenId>> prompts = {{'a'},
                                                     {'b', 'c', 'd', 'e', 'f'},
                                                     std::vector<TokenId>(18, 'x'),
                                                     {'g', 'h'},
                                                     std::vector<TokenId>(20, 'y')};
  for (const bool cache : {true, false}) {
    const GenerationOptions options = {.most_tokens = 9, .cache = cache};
    const auto together = generate(*model, config, Bytes(), prompts, 7, options, {});
    ASSERT_EQ(together.size(), prompts.size());
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const auto alone = generate(*model, config, Bytes(), std::span(prompts).subspan(i, 1),
                                  7 + static_cast<std::int64_t>(i), options, {});
      EXPECT_EQ(together[i].text, alone[0].text) << i;
      EXPECT_EQ(together[i].tokens, std::min<std::int64_t>(9, 20 - std::ssize(prompts[i])));
      EXPECT_EQ(together[i].ending, i == 2 || i == 4 ? Ending::max_positions : Ending::most_tokens);
    }
  }
}

}  // namespace
}  // namespace ssa
