#include "train/score_landing.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "model/softmax_limit.h"

namespace ssa {
namespace {

Config landing(const std::string& score, const std::vector<double>& end) {
  Config config;
  config.model.score = score;
  config.train.score_landing = end;
  config.train.score_landing_steps = 4;
  return config;
}

/// Of one layer.
ScoreValues begin_at(const std::vector<std::vector<float>>& values) {
  ScoreValues begin(1);
  for (const auto& of_heads : values) begin[0].push_back(torch::tensor(of_heads));
  return begin;
}

TEST(ScoreLanding, OfSsaGoesEvenlyInTheDistanceFromSoftmaxEachHeadFromItsOwn) {
  const Config config = landing("ssa", {4, 0.25});
  const std::vector<std::vector<float>> first = {{1024, 64}, {1.0F / 1024, 1.0F / 64}};
  const ScoreValues begin = begin_at(first);
  for (int step = 0; step <= 4; ++step) {
    const auto layer = landing_values(config, begin, step)->at(0);
    ASSERT_EQ(layer.size(), 2U);
    for (std::size_t head = 0; head < 2; ++head) {
      const double x = 1.0 / first[0][head];
      EXPECT_NEAR(layer[0][head] * layer[1][head], 1.0, 1e-12);
      EXPECT_NEAR(1 / layer[0][head], x + step / 4.0 * (0.25 - x), 1e-12);
    }
    EXPECT_EQ(is_landing(config.train, step), step < 4);
  }
  EXPECT_EQ(landing_values(config, begin, 4)->at(0),
            (std::vector<std::vector<double>>{{4, 4}, {0.25, 0.25}}));
  EXPECT_FALSE(landing_values(config, begin, 5).has_value());
}

TEST(ScoreLanding, OfOthersGoesEvenlyInTheirValues) {
  EXPECT_NEAR((*landing_values(landing("ssmax", {0.6}), begin_at({{0.2F}}), 1))[0][0][0], 0.3,
              1e-7);
  EXPECT_FALSE(landing_values(Config(), begin_at({{0.2F}}), 0).has_value());
  EXPECT_FALSE(is_landing(TrainConfig(), 0));
}

TEST(SoftmaxLimit, StrengthIsTheDepartureForScoresOfTheRulesSize) {
  for (const char* score : {"ssa", "softcap", "entmax", "sink", "temperature"}) {
    const auto limit = *SoftmaxLimit::of(score);
    double last = 0;
    for (const double strength : {1e-3, 0.1, 1.0}) {
      const auto values = match_softmax(score, kRuleSize, strength, Parametrisation::softplus);
      const double x = limit.coordinate(values);
      EXPECT_NEAR(limit.departure(x, kRuleSize), strength, 1e-6 * strength) << score;
      EXPECT_NEAR(limit.slope(values), 1.0, 1e-12) << score;
      EXPECT_GT(x, last);
      last = x;
      EXPECT_EQ(values.size(), find_score(score).params.size());
    }
    EXPECT_LT(
        limit.departure(limit.coordinate(match_softmax(score, kRuleSize, 0, Parametrisation::exp)),
                        kRuleSize),
        1e-3)
        << score;
  }
  // Nearer to softmax, float32 would lose digits of b.
  EXPECT_EQ(match_softmax("ssa", kRuleSize, 0, Parametrisation::softplus)[0], 0x1p22);
  EXPECT_EQ(match_softmax("ssa", 4 * kRuleSize, 0, Parametrisation::softplus)[0], 0x1p24);
  EXPECT_THROW(match_softmax("sparsemax", kRuleSize, 0, Parametrisation::softplus),
               std::invalid_argument);
  EXPECT_THROW(match_softmax("ssa", kRuleSize, -1, Parametrisation::softplus),
               std::invalid_argument);
}

}  // namespace
}  // namespace ssa
