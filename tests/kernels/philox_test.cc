#include "ssa/philox.h"

#include <gtest/gtest.h>

namespace {

using ssa::PhiloxWords;

// The known answers published with the paper's own implementation (Random123, kat_vectors).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(ssa::philox4x32(0, {0, 0, 0, 0}),
            (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(ssa::philox4x32(~0ULL, {~0U, ~0U, ~0U, ~0U}),
            (PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(ssa::philox4x32(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UnitStaysInsideTheOpenInterval) {
  EXPECT_GT(ssa::philox_unit(0), 0.0);
  EXPECT_LT(ssa::philox_unit(~0U), 1.0);
}

// The layout that docs/operator.md promises, column by column.
TEST(Philox, DropoutWordsFollowTheDocumentedCounter) {
  const std::uint64_t seed = 0x0123456789abcdef;
  for (std::uint32_t column = 0; column < 200; ++column) {
    const std::uint32_t group = column / 64, lane = column % 16, word = column % 64 / 16;
    EXPECT_EQ(ssa::dropout_words(seed, 3, 5, 7, group)[column % 64],
              ssa::philox4x32(seed, {3, 5, 7, 16 * group + lane})[word]);
  }
}

TEST(Philox, ThresholdIsExact) {
  EXPECT_EQ(ssa::dropout_threshold(0.0), 0U);
  EXPECT_EQ(ssa::dropout_threshold(0.5), 1U << 31);
  EXPECT_EQ(ssa::dropout_threshold(1.0 - 0x1p-32), ~0U);
}

}  // namespace
