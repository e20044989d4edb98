#include "eval/baselines.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ssa {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

struct Pairs {
  torch::Tensor x, y;
};

/// Noisy lines, so that a least squares fit is not just the line itself; x_4 of every second
/// sequence is 1000.
Pairs noisy_lines() {
  torch::manual_seed(3);
  const auto options = torch::dtype(torch::kDouble);
  torch::Tensor x = torch::randn({6, 15}, options);
  x.slice(0, 0, 6, 2).select(1, 4).fill_(1000.0);
  const torch::Tensor y = torch::randn({6, 1}, options) * x + torch::randn({6, 1}, options) +
                          0.1 * torch::randn({6, 15}, options);
  return {x, y};
}

TEST(Baselines, LeastSquaresAgreesWithLapackOnEveryPrefix) {
  const auto [x, y] = noisy_lines();
  const torch::Tensor found = least_squares(x, y);
  EXPECT_TRUE((found.select(1, 0) == 0).all().item<bool>());
  for (std::int64_t k = 0; k < x.size(0); ++k) {
    for (std::int64_t i = 1; i < x.size(1); ++i) {
      const torch::Tensor before = x[k].slice(0, 0, i);
      const torch::Tensor features = torch::stack({before, torch::ones_like(before)}, 1);
      const auto solution = std::get<0>(torch::linalg_lstsq(
          features, y[k].slice(0, 0, i).unsqueeze(1), /*rcond=*/c10::nullopt, "gelsd"));
      const double a = solution[0].item<double>(), b = solution[1].item<double>();
      const double at = x[k][i].item<double>();
      // Normal equations lose the square of the condition number of what is determined.
      const torch::Tensor singular = torch::linalg_svdvals(features);
      const double condition = (singular[0] / singular[-1]).item<double>();
      const double scale = std::abs(a * at) + std::abs(b) + y[k].abs().max().item<double>();
      EXPECT_NEAR(found[k][i].item<double>(), a * at + b,
                  8 * kEpsilon * condition * condition * scale)
          << "sequence " << k << ", position " << i;
    }
  }
}

TEST(Baselines, LeastSquaresOfAnExactLineIsExact) {
  const torch::Tensor x = noisy_lines().x;
  const torch::Tensor y = 2 * x - 0.5;
  const torch::Tensor relative = (least_squares(x, y) - y).abs() / (1 + y.abs());
  EXPECT_LT(relative.slice(1, 2).max().item<double>(), 1e-11);
  EXPECT_GT(relative.select(1, 1).min().item<double>(), 1e-3);  // one pair is not a line
}

TEST(Baselines, NearestNeighboursAgreesWithSorting) {
  const auto [x, y] = noisy_lines();
  for (const std::int64_t count : {1, 3, 20}) {
    const torch::Tensor found = nearest_neighbours(x, y, count);
    EXPECT_TRUE((found.select(1, 0) == 0).all().item<bool>());
    for (std::int64_t i = 1; i < x.size(1); ++i) {
      const torch::Tensor distance = (x.slice(1, 0, i) - x.slice(1, i, i + 1)).abs();
      const torch::Tensor order = distance.argsort(std::int64_t{1}).slice(1, 0, std::min(count, i));
      const torch::Tensor truth = y.slice(1, 0, i).gather(1, order).mean(1);
      EXPECT_LE((found.select(1, i) - truth).abs().max().item<double>(),
                16 * kEpsilon * y.abs().max().item<double>())
          << count << " neighbours, position " << i;
    }
  }
}

TEST(Baselines, NearestNeighboursTakesTheEarlierOfTwoEquals) {
  const auto options = torch::dtype(torch::kDouble);
  const torch::Tensor x = torch::tensor({{1.0, -1.0, 1.0, 0.0}}, options);
  const torch::Tensor y = torch::tensor({{5.0, 7.0, 9.0, 0.0}}, options);
  EXPECT_EQ(nearest_neighbours(x, y, 2)[0][3].item<double>(), 6.0);
}

TEST(Baselines, AveragingAgreesWithMeansOfEachPrefix) {
  const auto [x, y] = noisy_lines();
  const torch::Tensor found = averaging(x, y);
  EXPECT_TRUE((found.select(1, 0) == 0).all().item<bool>());
  for (std::int64_t i = 1; i < x.size(1); ++i) {
    const torch::Tensor before_x = x.slice(1, 0, i), before_y = y.slice(1, 0, i);
    const torch::Tensor truth = (before_x * before_y).mean(1) * x.select(1, i) + before_y.mean(1);
    const torch::Tensor scale =
        (before_x * before_y).abs().mean(1) * x.select(1, i).abs() + before_y.abs().mean(1);
    EXPECT_LE(((found.select(1, i) - truth).abs() / scale).max().item<double>(), 16 * kEpsilon);
  }
}

TEST(Baselines, PredictionsUseNothingFromTheirOwnPositionOn) {
  auto [x, y] = noisy_lines();
  const std::int64_t changed = 9;
  torch::Tensor other = y.clone();
  other.slice(1, changed).fill_(1e6);
  for (const auto& [name, predictions] : baselines(/*linear=*/true, x, y)) {
    for (const auto& [other_name, other_predictions] : baselines(true, x, other)) {
      if (other_name != name) continue;
      EXPECT_TRUE(torch::equal(predictions.slice(1, 0, changed + 1),
                               other_predictions.slice(1, 0, changed + 1)))
          << name;
      EXPECT_FALSE(torch::equal(predictions, other_predictions)) << name;
    }
  }
}

TEST(Baselines, ConstantAnswers) {
  const torch::Tensor y =
      torch::tensor({{1.0, 1.0, -1.0}, {1.0, -1.0, -1.0}, {1.0, -1.0, -1.0}}, torch::kDouble);
  EXPECT_TRUE((constant_answer(y) == -1).all().item<bool>());
  EXPECT_TRUE((constant_answer(-y) == 1).all().item<bool>());
  const torch::Tensor by_position = answer_by_position(y);
  ASSERT_EQ(by_position.sizes(), y.sizes());
  for (std::int64_t k = 0; k < 3; ++k) {
    EXPECT_TRUE(torch::equal(by_position[k], torch::tensor({1.0, -1.0, -1.0}, torch::kDouble)));
  }
  const auto named = baselines(/*linear=*/false, torch::Tensor(), y);
  ASSERT_EQ(named.size(), 2u);
  EXPECT_EQ(named[0].name, "constant");
  EXPECT_EQ(named[1].name, "position");
}

TEST(Baselines, ShapesThatDoNotFitAreErrors) {
  const auto [x, y] = noisy_lines();
  EXPECT_THROW(least_squares(x, y.slice(1, 1)), c10::Error);
  EXPECT_THROW(averaging(x.to(torch::kFloat), y), c10::Error);
  EXPECT_THROW(nearest_neighbours(x, y, 0), c10::Error);
}

}  // namespace
}  // namespace ssa
