#include "train/score_landing.h"

#include <gtest/gtest.h>

#include "model/softmax_limit.h"

namespace ssa {
namespace {

Config landing(const std::string& score, const std::vector<double>& begin,
               const std::vector<double>& end) {
  Config config;
  config.model.score = score;
  config.model.score_initial = begin;
  config.train.score_landing = end;
  config.train.score_landing_steps = 4;
  return config;
}

TEST(ScoreLanding, OfSsaGoesEvenlyInTheDistanceFromSoftmax) {
  const Config config = landing("ssa", {1024, 1.0 / 1024}, {4, 0.25});
  EXPECT_EQ(*landing_values(config, 0), config.model.score_initial);
  EXPECT_EQ(*landing_values(config, 4), config.train.score_landing);
  EXPECT_FALSE(landing_values(config, 5).has_value());
  for (int step = 0; step <= 4; ++step) {
    const auto values = *landing_values(config, step);
    EXPECT_NEAR(values[0] * values[1], 1.0, 1e-12);
    EXPECT_NEAR(1 / values[0], 1.0 / 1024 + step / 4.0 * (0.25 - 1.0 / 1024), 1e-12);
    EXPECT_EQ(is_landing(config.train, step), step < 4);
  }
}

TEST(ScoreLanding, OfOthersGoesEvenlyInTheirValues) {
  EXPECT_NEAR((*landing_values(landing("ssmax", {0.2}, {0.6}), 1))[0], 0.3, 1e-12);
  EXPECT_FALSE(landing_values(Config(), 0).has_value());
  EXPECT_FALSE(is_landing(TrainConfig(), 0));
}

TEST(SoftmaxLimit, StrengthIsTheDepartureForScoresOfTheRulesSize) {
  for (const char* score : {"ssa", "softcap", "entmax", "sink", "temperature"}) {
    const auto limit = *SoftmaxLimit::of(score);
    double last = 0;
    for (const double strength : {1e-3, 0.1, 1.0}) {
      const auto values = match_softmax(score, strength, Parametrisation::softplus);
      const double x = limit.coordinate(values);
      EXPECT_NEAR(limit.departure(x, kRuleSize), strength, 1e-6 * strength) << score;
      EXPECT_NEAR(limit.slope(values), 1.0, 1e-12) << score;
      EXPECT_GT(x, last);
      last = x;
      EXPECT_EQ(values.size(), find_score(score).params.size());
    }
    EXPECT_LT(
        limit.departure(limit.coordinate(match_softmax(score, 0, Parametrisation::exp)), kRuleSize),
        1e-3)
        << score;
  }
  // Nearer to softmax, float32 would lose digits of b.
  EXPECT_EQ(match_softmax("ssa", 0, Parametrisation::softplus)[0], 0x1p22);
  EXPECT_THROW(match_softmax("sparsemax", 0, Parametrisation::softplus), std::invalid_argument);
  EXPECT_THROW(match_softmax("ssa", -1, Parametrisation::softplus), std::invalid_argument);
}

}  // namespace
}  // namespace ssa
