#include "train/schedule.h"

#include <gtest/gtest.h>

namespace ssa {
namespace {

TrainConfig config_of(const std::string& schedule, std::int64_t steps, std::int64_t warmup) {
  TrainConfig config;
  config.learning_rate = 2.0;
  config.final_learning_rate = 0.25;
  config.schedule = choice_named<ScheduleKind>("schedule", schedule);
  config.steps = steps;
  config.warmup_steps = warmup;
  return config;
}

TEST(Schedule, WarmUpRisesToTheLearningRate) {
  for (const char* schedule : {"constant", "linear", "cosine"}) {
    const TrainConfig config = config_of(schedule, 100, 4);
    EXPECT_DOUBLE_EQ(learning_rate_at(config, 0), 0.5);
    EXPECT_DOUBLE_EQ(learning_rate_at(config, 2), 1.5);
    EXPECT_DOUBLE_EQ(learning_rate_at(config, 3), 2.0);
    EXPECT_DOUBLE_EQ(learning_rate_at(config, 4), 2.0);
  }
}

TEST(Schedule, EndsAtTheFinalShare) {
  EXPECT_DOUBLE_EQ(learning_rate_at(config_of("constant", 101, 0), 100), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(config_of("linear", 101, 0), 100), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(config_of("cosine", 101, 0), 100), 0.5);
}

TEST(Schedule, IsHalfWayInTheMiddle) {
  EXPECT_DOUBLE_EQ(learning_rate_at(config_of("linear", 101, 0), 50), 1.25);
  EXPECT_DOUBLE_EQ(learning_rate_at(config_of("cosine", 101, 0), 50), 1.25);
  // cos(pi/4) = 0.70710678…: share (1 + cos)/2 = 0.85355339…
  EXPECT_NEAR(learning_rate_at(config_of("cosine", 101, 0), 25), 0.5 + 1.5 * 0.8535533905932737,
              1e-15);
}

TEST(Schedule, OneStepAfterWarmUpIsTheLast) {
  EXPECT_DOUBLE_EQ(learning_rate_at(config_of("linear", 1, 0), 0), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(config_of("linear", 5, 5), 4), 2.0);
}

}  // namespace
}  // namespace ssa
