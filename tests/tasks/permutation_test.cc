#include "tasks/permutation.h"

#include <gtest/gtest.h>

#include <vector>

namespace ssa {
namespace {

std::vector<std::uint64_t> shuffled(std::uint64_t count, std::uint64_t key, std::uint32_t round) {
  std::vector<std::uint64_t> places;
  for (std::uint64_t i = 0; i < count; ++i)
    places.push_back(permuted(i, count, key, {0, 0, round, 4}));
  return places;
}

TEST(Permutation, EveryPlaceOnce) {
  for (std::uint64_t count = 1; count <= 300; ++count) {
    std::vector<bool> seen(count, false);
    for (const std::uint64_t place : shuffled(count, 7, 0)) {
      ASSERT_LT(place, count);
      ASSERT_FALSE(seen[place]) << place << " twice of " << count;
      seen[place] = true;
    }
  }
}

TEST(Permutation, AnotherOneForEachKeyAndRound) {
  const auto first = shuffled(1000, 7, 0);
  EXPECT_EQ(first, shuffled(1000, 7, 0));
  EXPECT_NE(first, shuffled(1000, 8, 0));
  EXPECT_NE(first, shuffled(1000, 7, 1));
}

// Over 30 000 shuffles of 5 things each of the 120 orders is expected 250 times; chi² of 119
// degrees of freedom is above 190 with probability 4e-5.
TEST(Permutation, AllOrdersAreEquallyLikely) {
  std::vector<int> counts(5 * 5 * 5 * 5 * 5, 0);
  constexpr int kShuffles = 30000;
  for (std::uint32_t round = 0; round < kShuffles; ++round) {
    std::uint64_t name = 0;
    for (const std::uint64_t place : shuffled(5, 1, round)) name = 5 * name + place;
    ++counts[name];
  }
  double chi2 = 0;
  int orders = 0;
  for (const int count : counts) {
    if (count == 0) continue;
    ++orders;
    const double expected = kShuffles / 120.0;
    chi2 += (count - expected) * (count - expected) / expected;
  }
  EXPECT_EQ(orders, 120);
  EXPECT_LT(chi2, 190);
}

}  // namespace
}  // namespace ssa
