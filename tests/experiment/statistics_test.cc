#include "experiment/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <utility>
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

// References below: scipy 1.17.1 (stats.t, ttest_1samp, permutation_test with all permutations) and
// statsmodels 0.15.0 (multipletests, TTestPower).

struct Tail {
  double t;
  std::int64_t degrees;
  double p;
};

constexpr Tail kTails[] = {{0.5, 1, 0.7048327646991335},   {2, 4, 0.11611652351681556},
                           {2.776445105197794, 4, 0.05},   {5, 9, 0.0007389679098032426},
                           {-3.3, 2, 0.08084769380366799}, {0, 7, 1}};

TEST(StudentT, AgreesWithScipysTails) {
  for (const auto& [t, degrees, p] : kTails) {
    EXPECT_NEAR(student_t_p(t, degrees), p, 1e-13) << t << ", " << degrees;
  }
  EXPECT_NEAR(student_t_p(10, 19), 5.263026162335899e-09, 1e-15);
  EXPECT_EQ(student_t_p(std::numeric_limits<double>::infinity(), 4), 0);
  EXPECT_TRUE(std::isnan(student_t_p(std::nan(""), 4)));
}

const std::vector<double> kDifferences = {-0.31, -0.12, -0.44, 0.05, -0.27, -0.36};

TEST(PairedTest, AgreesWithScipy) {
  const PairedTest test = paired_test(kDifferences);
  EXPECT_NEAR(test.p, 0.020942451771744367, 1e-14);
  EXPECT_NEAR(test.difference.mean - test.difference.half_width, -0.42862139969140134, 1e-14);
  EXPECT_NEAR(test.difference.mean + test.difference.half_width, -0.05471193364193186, 1e-14);
}

/// statsmodels solves the noncentral t; the approximation is 1 % off at 5 seeds.
TEST(PairedTest, SaysWhatItWouldHaveSeen) {
  const std::vector<std::pair<std::int64_t, double>> known = {{20, 0.6604416544380312},
                                                              {5, 1.6819970833232674}};
  for (const auto& [seeds, effect] : known) {
    std::vector<double> differences(static_cast<std::size_t>(seeds));
    for (std::size_t i = 0; i < differences.size(); ++i) differences[i] = static_cast<double>(i);
    const Estimate found = estimate(differences);
    const double deviation = found.half_width * std::sqrt(static_cast<double>(seeds)) /
                             student_t_quantile(0.95, seeds - 1);
    EXPECT_NEAR(paired_test(differences).detectable / deviation, effect, 0.015 * effect) << seeds;
  }
}

TEST(PairedTest, IsNoSurerThanCountingAllows) {
  const std::vector<double> equal(5, -1.0);
  EXPECT_EQ(paired_test(equal).p, 0);
  const PairedTest floored = paired_test(equal, 0.25);
  EXPECT_NEAR(floored.difference.half_width, 0.5 * student_t_quantile(0.95, 4), 1e-12);
  EXPECT_NEAR(floored.p, 0.11611652351681556, 1e-12);
  const std::vector<double> nothing(5, 0.0);
  EXPECT_EQ(paired_test(nothing).p, 1);
  EXPECT_EQ(paired_test(kDifferences, 1e-9).p, paired_test(kDifferences).p);
}

TEST(PairedTest, OfOneDifferenceIsUnknown) {
  const std::vector<double> one = {1};
  EXPECT_TRUE(std::isnan(paired_test(one).p));
  EXPECT_TRUE(std::isnan(paired_test({}).p));
}

TEST(SignFlip, AgreesWithScipysPermutations) {
  EXPECT_DOUBLE_EQ(*sign_flip_p(kDifferences), 0.0625);
  const std::vector<double> all_lower(10, -0.5);
  EXPECT_DOUBLE_EQ(*sign_flip_p(all_lower), 2.0 / 1024);
  const std::vector<double> nothing(10, 0.0);
  EXPECT_EQ(*sign_flip_p(nothing), 1);
  EXPECT_FALSE(sign_flip_p(std::vector<double>{1.0}));
  EXPECT_FALSE(sign_flip_p(std::vector<double>(25, 1.0)));
  EXPECT_FALSE(sign_flip_p(std::vector<double>{1.0, std::nan("")}));
}

TEST(Corrections, AgreeWithStatsmodels) {
  const std::vector<double> p = {0.001, 0.2, 0.013, 0.04, 0.013, 0.8, 0.0009};
  const std::vector<double> rate = {0.0035, 0.23333333333333336, 0.02275, 0.056, 0.02275, 0.8,
                                    0.0035};
  const std::vector<double> family = {0.0063, 0.4, 0.065, 0.12, 0.065, 0.8, 0.0063};
  const auto found_rate = benjamini_hochberg(p), found_family = holm(p);
  for (std::size_t i = 0; i < p.size(); ++i) {
    EXPECT_NEAR(found_rate[i], rate[i], 1e-15);
    EXPECT_NEAR(found_family[i], family[i], 1e-15);
  }
  EXPECT_TRUE(holm({}).empty());
}

TEST(Corrections, LeaveOutWhatIsUnknown) {
  const std::vector<double> p = {std::nan(""), 0.04, 0.03};
  EXPECT_TRUE(std::isnan(benjamini_hochberg(p)[0]));
  EXPECT_DOUBLE_EQ(benjamini_hochberg(p)[2], 0.04);
  EXPECT_DOUBLE_EQ(holm(p)[2], 0.06);
}

TEST(LogOdds, AreJeffreys) {
  EXPECT_DOUBLE_EQ(log_odds(0, 10), std::log(0.5 / 10.5));
  EXPECT_DOUBLE_EQ(log_odds(5, 10), 0);
  EXPECT_DOUBLE_EQ(log_odds_variance(0, 10), 2 + 1 / 10.5);
}

/// Share of `tables` tables of `rows` rows without any effect in which one is found.
template <class DrawP>
double false_tables(int tables, std::size_t rows, DrawP&& draw) {
  int found = 0;
  for (int table = 0; table < tables; ++table) {
    std::vector<double> p(rows);
    for (double& value : p) value = draw();
    bool any = false;
    for (const double value : benjamini_hochberg(p)) any = any || value < 0.05;
    found += any;
  }
  return static_cast<double>(found) / tables;
}

// 10 000 tables leave 0.0022 of standard error at 0.05.
TEST(NullTables, AreFalseInFivePercent) {
  std::mt19937_64 random(20250814);
  std::normal_distribution<double> normal;
  const double share = false_tables(10000, 20, [&] {
    std::vector<double> differences(5);
    for (double& value : differences) value = normal(random);
    return paired_test(differences).p;
  });
  EXPECT_LE(share, 0.05 + 3 * 0.0022);
  EXPECT_GE(share, 0.05 - 3 * 0.0022);
}

/// Rates of equal models on sequences of their own; the width that counting leaves only adds care.
TEST(NullTables, OfRareErrorsAreFalseInLessThanFivePercent) {
  std::mt19937_64 random(1);
  std::binomial_distribution<std::int64_t> errors(640, 0.003);
  const double share = false_tables(10000, 20, [&] {
    std::vector<double> differences(5);
    double variance = 0;
    for (double& value : differences) {
      const std::int64_t score = errors(random), softmax = errors(random);
      value = log_odds(score, 640) - log_odds(softmax, 640);
      variance += log_odds_variance(score, 640) + log_odds_variance(softmax, 640);
    }
    return paired_test(differences, variance / 25).p;
  });
  EXPECT_LE(share, 0.05);
}

}  // namespace
}  // namespace ssa
