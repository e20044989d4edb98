#include "experiment/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

namespace ssa {
namespace {

struct TabulatedQuantile {
  double confidence;
  std::int64_t degrees;
  double t;
};

// Two-sided quantiles from 40-digit arithmetic (the regularised incomplete beta function,
// inverted).
constexpr TabulatedQuantile kQuantiles[] = {
    {0.95, 1, 12.706204736174705},   {0.95, 2, 4.3026527297494639},  {0.95, 3, 3.1824463052837096},
    {0.95, 4, 2.7764451051977944},   {0.95, 5, 2.5705818356363155},  {0.95, 9, 2.2621571627982055},
    {0.95, 10, 2.2281388519862747},  {0.95, 29, 2.0452296421327043}, {0.95, 30, 2.0422724563012383},
    {0.95, 100, 1.9839715185235523}, {0.95, 999, 1.96234146113345},  {0.5, 1, 1.0},
    {0.5, 7, 0.71114177808178631},   {0.99, 4, 4.6040948713499932},  {0.99, 9, 3.2498355415921263},
};

TEST(StudentT, AgreesWithTabulatedQuantiles) {
  for (const auto& [confidence, degrees, t] : kQuantiles) {
    EXPECT_NEAR(student_t_quantile(confidence, degrees), t, 1e-12 * t)
        << "confidence " << confidence << ", degrees " << degrees;
  }
}

TEST(StudentT, RefusesWhatHasNoQuantile) {
  EXPECT_THROW(student_t_quantile(0.95, 0), std::invalid_argument);
  EXPECT_THROW(student_t_quantile(0, 3), std::invalid_argument);
  EXPECT_THROW(student_t_quantile(1, 3), std::invalid_argument);
  EXPECT_THROW(student_t_quantile(std::nan(""), 3), std::invalid_argument);
}

TEST(Estimate, OfThreeValues) {
  const std::vector<double> values = {1, 2, 6};
  const Estimate found = estimate(values);
  EXPECT_DOUBLE_EQ(found.mean, 3);
  EXPECT_EQ(found.count, 3);
  // deviation sqrt((4 + 1 + 9) / 2) = sqrt(7), standard error sqrt(7 / 3), t(2) = 4.302652729749464
  EXPECT_NEAR(found.half_width, 4.302652729749464 * std::sqrt(7.0 / 3.0), 1e-12);
}

TEST(Estimate, OfEqualValuesHasNoWidth) {
  const std::vector<double> values(5, 0.125);
  EXPECT_EQ(estimate(values).half_width, 0);
}

TEST(Estimate, OfOneValueHasAnUnknownWidth) {
  const std::vector<double> values = {0.25};
  EXPECT_EQ(estimate(values).mean, 0.25);
  EXPECT_TRUE(std::isnan(estimate(values).half_width));
}

TEST(Estimate, OfNothingIsNotANumber) { EXPECT_TRUE(std::isnan(estimate({}).mean)); }

TEST(Estimate, OfAValueThatIsNotFiniteIsNotFinite) {
  const std::vector<double> values = {1, std::nan(""), 3};
  EXPECT_TRUE(std::isnan(estimate(values).mean));
}

}  // namespace
}  // namespace ssa
