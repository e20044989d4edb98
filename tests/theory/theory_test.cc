#include "theory/theory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace ssa {
namespace {

std::vector<double> initial_values(const ScoreInfo& score) {
  std::vector<double> values;
  for (const ParamInfo& parameter : score.params) values.push_back(parameter.initial);
  return values;
}

std::vector<TheoremCurve> curves(const char* score, std::vector<double> params) {
  return measure_theorems(find_score(score), params);
}

TEST(Theory, PhiAgreesWithGoldenPoints) {
  for (const ScoreInfo* score : theorem_scores()) {
    for (const GoldenPoint& point : score->golden) {
      const std::span params(point.params.data(), score->params.size());
      // The stored values have 12 digits.
      EXPECT_NEAR(phi(*score, params, point.s), point.phi,
                  1e-11 * std::max(1.0, std::abs(point.phi)))
          << score->name << " at " << point.s;
    }
  }
}

TEST(Theory, LogMissIsExactWhereOneMinusPIsNot) {
  const ScoreInfo& softmax = find_score("softmax");
  // Competitors 300 below: 1 − p = 2·e^-300/(1 + 2·e^-300), which 1 − p in double rounds to 0.
  const std::vector<double> far = {400, 100, 100};
  EXPECT_DOUBLE_EQ(log_miss(softmax, {}, far, 0), std::log(2.0) - 300);
  const std::vector<double> near = {0.5, 1, -1};
  const double all = std::exp(0.5) + std::exp(1) + std::exp(-1);
  EXPECT_NEAR(log_miss(softmax, {}, near, 1), std::log((std::exp(0.5) + std::exp(-1)) / all),
              1e-15);
  EXPECT_THROW(log_miss(softmax, {}, near, 3), std::invalid_argument);
}

TEST(Theory, SsaMissOfThePapersRow) {
  const std::vector<double> row = {1, -1, -2, 1000};
  const std::vector<double> params = {1.5, 0.8};
  // math.md: p = 1.065126576e-4, 1.826348725e-5, 1.052040457e-5, rest at the huge value
  EXPECT_NEAR(std::exp(log_miss(find_score("ssa"), params, row, 3)),
              1.065126576e-4 + 1.826348725e-5 + 1.052040457e-5, 1e-13);
}

TEST(Theory, PredictionsForSsaAreThePowersOfN) {
  for (const double n : {1.0, 1.5, 2.0, 3.7}) {
    for (const double b : {0.8, 2.718281828459045}) {
      const auto found = curves("ssa", {n, b});
      ASSERT_EQ(found.size(), 4u);
      const double powers[] = {0, -n, -2 * n, -n};
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_TRUE(found[i].log_axis);
        EXPECT_NEAR(found[i].predicted_slope, powers[i], 1e-7) << found[i].case_name;
        EXPECT_TRUE(found[i].holds(0.01))
            << n << " " << b << " " << found[i].case_name << " " << found[i].fitted_slope;
      }
    }
  }
}

TEST(Theory, SsaKeepsAConstantMissAgainstPositiveScores) {
  const double n = 1.5;
  const auto found = curves("ssa", {n, 0.8});
  const std::vector<double>& row = found[0].row;
  double others = 0;
  for (std::size_t j = 1; j < row.size(); ++j) others += std::pow(row[j] / row[0], n);
  EXPECT_NEAR(found[0].log_miss.back(), std::log(others / (1 + others)), 1e-5);
}

TEST(Theory, SoftmaxFallsWithTheGap) {
  const auto check = [](const std::vector<TheoremCurve>& found, double rate) {
    ASSERT_EQ(found.size(), 4u);
    const double gaps[] = {1, 2, 3, 1};
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_FALSE(found[i].log_axis);
      EXPECT_NEAR(found[i].predicted_slope, -rate * gaps[i], 1e-7) << found[i].case_name;
      EXPECT_TRUE(found[i].holds(0.01)) << found[i].case_name << " " << found[i].fitted_slope;
    }
  };
  check(curves("softmax", {}), 1);
  check(curves("temperature", {1.0}), 1);
  check(curves("temperature", {0.5}), 2);
}

TEST(Theory, SoftcapStopsAtItsCap) {
  for (const TheoremCurve& curve : curves("softcap", {50.0})) {
    EXPECT_TRUE(curve.log_axis);
    EXPECT_EQ(curve.predicted_slope, 0) << curve.case_name;
    EXPECT_NEAR(curve.fitted_slope, 0, 1e-9) << curve.case_name;
  }
}

TEST(Theory, HoldsForEveryScoreOfTheList) {
  for (const ScoreInfo* score : theorem_scores()) {
    for (const TheoremCurve& curve : measure_theorems(*score, initial_values(*score))) {
      EXPECT_TRUE(curve.holds(0.01))
          << score->name << ", " << curve.case_name << ": fitted " << curve.fitted_slope
          << ", predicted " << curve.predicted_slope;
      ASSERT_EQ(curve.x.size(), curve.log_miss.size());
      for (const double value : curve.log_miss) EXPECT_TRUE(std::isfinite(value) && value < 0);
    }
  }
}

TEST(Theory, ASlopeThatIsOffDoesNotHold) {
  TheoremCurve curve;
  curve.predicted_slope = -1.5;
  curve.fitted_slope = -1.5 * 1.009;
  EXPECT_TRUE(curve.holds(0.01));
  curve.fitted_slope = -1.5 * 1.011;
  EXPECT_FALSE(curve.holds(0.01));
  curve.predicted_slope = 0;  // near 0 the tolerance is absolute
  curve.fitted_slope = 0.011;
  EXPECT_FALSE(curve.holds(0.01));
  curve.fitted_slope = NAN;
  EXPECT_FALSE(curve.holds(0.01));
}

TEST(Theory, FitSlope) {
  const std::vector<double> x = {-1, 0, 2, 5}, y = {-4, -1, 5, 14};  // 3x − 1
  EXPECT_DOUBLE_EQ(fit_slope(x, y), 3);
  const std::vector<double> same = {2, 2, 2, 2};
  EXPECT_THROW(fit_slope(same, y), std::invalid_argument);
  EXPECT_THROW(fit_slope({}, {}), std::invalid_argument);
}

TEST(Theory, WrongNumberOfParametersIsAnError) {
  EXPECT_THROW(curves("ssa", {1.5}), std::invalid_argument);
}

}  // namespace
}  // namespace ssa
