#include "tasks/icl_errors.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ssa {
namespace {

const Figure& figure(const std::vector<Figure>& figures, const std::string& metric) {
  const auto found = std::find_if(figures.begin(), figures.end(),
                                  [&](const Figure& f) { return f.metric == metric; });
  if (found == figures.end()) throw std::runtime_error("no figure " + metric);
  return *found;
}

std::vector<std::string> names(const std::vector<Figure>& figures) {
  std::vector<std::string> found;
  for (const Figure& f : figures) found.push_back(f.metric);
  return found;
}

using Names = std::vector<std::string>;

TEST(Errors, SharesOfWrongSigns) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const torch::Tensor y =
      torch::tensor({{1.0, 1.0, -1.0, -1.0}, {1.0, 1.0, 1.0, 1.0}}, torch::kDouble);
  // wrong: 0 1 0 1 / 1 0 1 0 (0 and NaN are no answer)
  const torch::Tensor out =
      torch::tensor({{0.1, -3.0, -1e-9, 0.0}, {nan, inf, -inf, 1e-30}}, torch::kDouble);
  const auto whole = quantifier_figures(out, y);
  EXPECT_EQ(names(whole), (Names{"wrong", "sequence-wrong"}));
  EXPECT_EQ(figure(whole, "wrong").mean, 0.5);
  EXPECT_EQ(figure(whole, "wrong").standard_error, 0.0);
  EXPECT_EQ(figure(whole, "wrong").items, 8);
  EXPECT_EQ(figure(whole, "wrong").per_position, (std::vector<double>{0.5, 0.5, 0.5, 0.5}));
  EXPECT_EQ(figure(whole, "sequence-wrong").mean, 1.0);
  EXPECT_EQ(figure(whole, "sequence-wrong").items, 2);
  EXPECT_TRUE(figure(whole, "sequence-wrong").per_position.empty());

  const auto split = quantifier_figures(out, y, 1);
  EXPECT_EQ(names(split), (Names{"wrong-before", "sequence-wrong-before", "wrong-at",
                                 "sequence-wrong-at", "wrong-after", "sequence-wrong-after"}));
  EXPECT_EQ(figure(split, "wrong-before").mean, 0.5);
  EXPECT_EQ(figure(split, "wrong-at").mean, 0.5);
  EXPECT_EQ(figure(split, "wrong-at").standard_error, 0.5);
  EXPECT_EQ(figure(split, "wrong-after").mean, 0.5);
  EXPECT_EQ(figure(split, "wrong-after").items, 4);
  EXPECT_EQ(figure(split, "wrong-after").per_position.size(), 4u);
  EXPECT_EQ(figure(split, "sequence-wrong-after").mean, 1.0);
  EXPECT_EQ(names(quantifier_figures(out, y, 0)),
            (Names{"wrong-at", "sequence-wrong-at", "wrong-after", "sequence-wrong-after"}));
  EXPECT_EQ(names(quantifier_figures(out, y, 3)),
            (Names{"wrong-before", "sequence-wrong-before", "wrong-at", "sequence-wrong-at"}));
  EXPECT_THROW(quantifier_figures(out, y, 4), c10::Error);
}

/// Sequences of unequal size and error, so that a wrong standard error shows.
struct Predictions {
  torch::Tensor out, y;
};
Predictions noisy_predictions(std::int64_t sequences) {
  torch::manual_seed(5);
  const auto options = torch::dtype(torch::kDouble);
  const torch::Tensor y =
      torch::randn({sequences, 8}, options) * (0.5 * torch::randn({sequences, 1}, options)).exp();
  return {
      y + 0.3 * torch::randn({sequences, 8}, options) * torch::randn({sequences, 1}, options).abs(),
      y};
}

TEST(Errors, SquaredErrorsByPlainLoops) {
  const auto [out, y] = noisy_predictions(50);
  const auto figures = linear_figures(out, y);
  EXPECT_EQ(names(figures), (Names{"squared-error", "relative-error"}));
  std::vector<double> errors(50, 0.0);
  double total = 0, scale = 0;
  for (std::int64_t k = 0; k < 50; ++k) {
    for (std::int64_t i = 2; i < 8; ++i) {
      const double truth = y[k][i].item<double>();
      const double error = std::pow(out[k][i].item<double>() - truth, 2);
      errors[k] += error / 6;
      total += error;
      scale += truth * truth;
    }
  }
  const double mean = total / (50 * 6);
  double spread = 0;
  for (const double error : errors) spread += (error - mean) * (error - mean);
  const Figure& squared = figure(figures, "squared-error");
  EXPECT_NEAR(squared.mean, mean, 1e-13 * mean);
  EXPECT_NEAR(squared.standard_error, std::sqrt(spread / 49 / 50), 1e-12 * mean);
  EXPECT_EQ(squared.items, 300);
  EXPECT_EQ(squared.per_position.size(), 8u);
  EXPECT_NEAR(squared.per_position[0], (out - y).square().select(1, 0).mean().item<double>(),
              1e-14);
  EXPECT_NEAR(figure(figures, "relative-error").mean, total / scale, 1e-13);
}

TEST(Errors, StandardErrorOfTheRatioAgreesWithTheJackknife) {
  constexpr std::int64_t kSequences = 400;
  const auto [out, y] = noisy_predictions(kSequences);
  const auto ratio = [](const torch::Tensor& out, const torch::Tensor& y) {
    return figure(linear_figures(out, y), "relative-error").mean;
  };
  std::vector<double> left_out;
  for (std::int64_t k = 0; k < kSequences; ++k) {
    const auto without = [k](const torch::Tensor& t) {
      return torch::cat({t.slice(0, 0, k), t.slice(0, k + 1)});
    };
    left_out.push_back(ratio(without(out), without(y)));
  }
  double mean = 0, spread = 0;
  for (const double value : left_out) mean += value / kSequences;
  for (const double value : left_out) spread += (value - mean) * (value - mean);
  const double jackknife = std::sqrt(spread * (kSequences - 1) / kSequences);
  const Figure figures = figure(linear_figures(out, y), "relative-error");
  // They differ in second order, 1/sequences times the kurtosis of a sequence's error.
  EXPECT_NEAR(figures.standard_error / jackknife, 1.0, 0.05);
}

TEST(Errors, LinearPartsBeginWhereALineIsDetermined) {
  const auto [out, y] = noisy_predictions(4);
  EXPECT_EQ(names(linear_figures(out, y, 1)),
            (Names{"squared-error-after", "relative-error-after"}));
  EXPECT_EQ(figure(linear_figures(out, y, 1), "squared-error-after").items, 4 * 6);
  const auto split = linear_figures(out, y, 5);
  EXPECT_EQ(figure(split, "squared-error-before").items, 4 * 3);
  EXPECT_EQ(figure(split, "squared-error-at").items, 4);
  EXPECT_EQ(figure(split, "squared-error-after").items, 4 * 2);
  EXPECT_NEAR(figure(split, "squared-error-at").mean,
              (out - y).square().select(1, 5).mean().item<double>(), 1e-14);
}

TEST(Errors, OneSequenceHasNoStandardError) {
  const auto [out, y] = noisy_predictions(1);
  EXPECT_TRUE(std::isnan(figure(linear_figures(out, y), "squared-error").standard_error));
}

TEST(Errors, ShapesThatDoNotFitAreErrors) {
  const auto [out, y] = noisy_predictions(4);
  EXPECT_THROW(linear_figures(out.slice(1, 1), y), c10::Error);
  EXPECT_THROW(quantifier_figures(out.slice(0, 0, 0), y.slice(0, 0, 0)), c10::Error);
}

}  // namespace
}  // namespace ssa
