#include "ssa/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ssa {
namespace {

TEST(NormalDeviates, LogarithmAndCircleAreAccurate) {
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const auto word = static_cast<std::uint32_t>(i * 0x9E3779B9);
    const long double unit = (word + 0.5L) * 0x1p-32L;
    const long double log_truth = std::log(unit);
    EXPECT_NEAR(random_internal::natural_log(philox_unit(word)), log_truth,
                4e-16 * std::abs(log_truth));
    const long double angle = 2 * std::numbers::pi_v<long double> * unit;
    const auto point = random_internal::circle_point(word);
    EXPECT_NEAR(point[0], std::cos(angle), 4e-16);
    EXPECT_NEAR(point[1], std::sin(angle), 4e-16);
  }
}

// Resumed and repeated runs rely on these bits: x86-64 (-O0, -O3, -march=native) and AArch64 gave
// the same.
TEST(NormalDeviates, BitsStayWhatTheyAre) {
  const std::array<double, 4> known = {0x1.2bfbda8808343p-1, 0x1.a4c31e66ca7aap-1,
                                       0x1.a2a37ddcaf2fbp-2, 0x1.2fe4c1924f349p+0};
  EXPECT_EQ(normal_deviates(0x0123456789abcdef, {1, 2, 3, 4}), known);
}

TEST(NormalDeviates, AreNormalAndIndependent) {
  constexpr std::uint32_t kCalls = 50000;
  std::vector<double> all;
  double cross = 0;
  for (std::uint32_t i = 0; i < kCalls; ++i) {
    const auto four = normal_deviates(11, {i, 0, 0, 0});
    all.insert(all.end(), four.begin(), four.end());
    cross += four[0] * four[1] + four[1] * four[2] + four[2] * four[3];
  }
  const auto count = static_cast<double>(all.size());
  EXPECT_NEAR(cross / (3 * kCalls), 0.0, 5 / std::sqrt(3.0 * kCalls));
  // Kolmogorov's distance to the normal distribution: above 2.23/√N once in 10⁴ samples.
  std::sort(all.begin(), all.end());
  double distance = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double truth = 0.5 * std::erfc(-all[i] / std::numbers::sqrt2);
    distance = std::max({distance, truth - i / count, (i + 1) / count - truth});
  }
  EXPECT_LT(distance, 2.23 / std::sqrt(count));
}

}  // namespace
}  // namespace ssa
