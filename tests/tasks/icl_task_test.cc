#include "tasks/icl_task.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

namespace ssa {
namespace {

Config config_for(const std::string& task) {
  Config config;
  config.task.name = *find_choice<TaskName>(task);
  config.train.batch = 8;
  config.train.seed = 3;
  return config;
}

TEST(Curriculum, AddsPointsAtTheBoundariesAndStopsAtTheEnd) {
  const TaskConfig paper;  // 11 to 41, 2 more every 2000 steps
  EXPECT_EQ(curriculum_points(paper, 0), 11);
  EXPECT_EQ(curriculum_points(paper, 1999), 11);
  EXPECT_EQ(curriculum_points(paper, 2000), 13);
  EXPECT_EQ(curriculum_points(paper, 3999), 13);
  EXPECT_EQ(curriculum_points(paper, 29999), 39);
  EXPECT_EQ(curriculum_points(paper, 30000), 41);
  EXPECT_EQ(curriculum_points(paper, 500000), 41);
  TaskConfig uneven;
  uneven.points_start = 10;
  uneven.points_end = 15;
  uneven.points_step = 4;
  uneven.points_interval = 1;
  EXPECT_EQ(curriculum_points(uneven, 1), 14);
  EXPECT_EQ(curriculum_points(uneven, 2), 15);
}

TEST(InContextTask, BatchesFollowTheCurriculum) {
  const auto task = make_task(config_for("icl-every"));
  for (const auto& [step, points] : {std::pair{1999L, 11L}, {2000L, 13L}, {40000L, 41L}}) {
    const Batch batch = task->training_batch(step, 0);
    EXPECT_EQ(batch.inputs.tokens.sizes(), (std::vector<std::int64_t>{8, 2 * points, 1}));
    EXPECT_EQ(batch.targets.sizes(), (std::vector<std::int64_t>{8, points}));
    EXPECT_EQ(task->progress(step).at("points"), points);
  }
  EXPECT_EQ(task->validation_batch(0).targets.size(1), 41);
}

TEST(InContextTask, ABatchIsAFunctionOfSeedStepAndSlice) {
  for (const char* name : {"icl-every", "icl-some", "icl-linear"}) {
    const Config config = config_for(name);
    const auto task = make_task(config);
    const Batch first = task->training_batch(12, 1);
    task->training_batch(3, 0);
    task->validation_batch(0);
    EXPECT_TRUE(
        torch::equal(make_task(config)->training_batch(12, 1).inputs.tokens, first.inputs.tokens));
    EXPECT_FALSE(torch::equal(task->training_batch(13, 1).inputs.tokens, first.inputs.tokens));
    EXPECT_FALSE(torch::equal(task->training_batch(12, 0).inputs.tokens, first.inputs.tokens));
    Config other = config;
    other.train.seed = 4;
    EXPECT_FALSE(
        torch::equal(make_task(other)->training_batch(12, 1).inputs.tokens, first.inputs.tokens));
    other = config;
    other.model.score = "softmax";
    EXPECT_TRUE(
        torch::equal(make_task(other)->training_batch(12, 1).inputs.tokens, first.inputs.tokens));
  }
}

TEST(InContextTask, ValidationIsNotTheTrainingData) {
  Config config = config_for("icl-linear");
  config.task.points_start = config.task.points_end;
  const auto task = make_task(config);
  EXPECT_FALSE(torch::equal(task->validation_batch(0).inputs.tokens,
                            task->training_batch(0, 0).inputs.tokens));
  EXPECT_TRUE(torch::equal(task->validation_batch(0).inputs.tokens,
                           task->validation_batch(0).inputs.tokens));
  EXPECT_FALSE(torch::equal(task->validation_batch(0).inputs.tokens,
                            task->validation_batch(1).inputs.tokens));
}

TEST(InContextTask, QuantifierLossIsTheCrossEntropyAtXPositions) {
  const auto task = make_task(config_for("icl-some"));
  const Batch batch = task->training_batch(0, 0);
  const auto output = torch::randn({8, 22, 1}, torch::kFloat64);
  double sum = 0, wrong = 0, sequence_wrong = 0;
  for (int s = 0; s < 8; ++s) {
    bool any_wrong = false;
    for (int i = 0; i < 11; ++i) {
      const double out = output[s][2 * i][0].item<double>();
      const double y = batch.targets[s][i].item<double>();
      sum += std::log1p(std::exp(-y * out));
      wrong += out * y < 0;
      any_wrong = any_wrong || out * y < 0;
    }
    sequence_wrong += any_wrong;
  }
  EXPECT_NEAR(task->loss(output, batch).item<double>(), sum / 88, 1e-12);
  const auto metrics = task->metrics(output, batch);
  EXPECT_NEAR(metrics.at("wrong"), wrong / 88, 1e-12);
  EXPECT_NEAR(metrics.at("sequence-wrong"), sequence_wrong / 8, 1e-12);
}

TEST(InContextTask, LinearLossIsTheSquaredErrorAtXPositions) {
  const auto task = make_task(config_for("icl-linear"));
  const Batch batch = task->training_batch(0, 0);
  const auto output = torch::randn({8, 22, 1}, torch::kFloat64);
  double all = 0, from_third = 0;
  for (int s = 0; s < 8; ++s) {
    for (int i = 0; i < 11; ++i) {
      const double error = output[s][2 * i][0].item<double>() - batch.targets[s][i].item<double>();
      all += error * error / 88;
      if (i >= 2) from_third += error * error / (8 * 9);
    }
  }
  EXPECT_NEAR(task->loss(output, batch).item<double>(), all, 1e-9);
  EXPECT_NEAR(task->metrics(output, batch).at("squared-error"), from_third, 1e-9);
}

// What the model reads at x_i must not contain y_i: the token after it does.
TEST(InContextTask, TargetsAreTheTokensAfterTheirX) {
  const auto task = make_task(config_for("icl-linear"));
  const Batch batch = task->training_batch(7, 0);
  EXPECT_TRUE(torch::equal(batch.inputs.tokens.view({8, 11, 2}).select(2, 1), batch.targets));
}

}  // namespace
}  // namespace ssa
