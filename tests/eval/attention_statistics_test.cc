#include "eval/attention_statistics.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

namespace ssa {
namespace {

/// Head 0 attends equally to everything it sees, head 1 to itself alone.
AttentionRecord two_heads(std::int64_t length) {
  const torch::Tensor uniform = torch::ones({length, length}).tril();
  const torch::Tensor heads = torch::stack({uniform / uniform.sum(1, true), torch::eye(length)});
  return {heads.unsqueeze(0).expand({3, 2, length, length})};
}

TEST(AttentionStatistics, OfKnownWeights) {
  constexpr std::int64_t kLength = 7, kToken = 4;
  double entropy = 0, p_max = 0, mass = 0;
  for (std::int64_t i = 0; i < kLength; ++i) {
    entropy += std::log(i + 1.0) / kLength;
    p_max += 1.0 / (i + 1) / kLength;
    if (i >= kToken) mass += 1.0 / (i + 1) / (kLength - kToken);
  }
  const auto found = attention_statistics({two_heads(kLength), two_heads(kLength)}, kToken);
  ASSERT_EQ(found.size(), 4u);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].layer, static_cast<std::int64_t>(i / 2));
    EXPECT_EQ(found[i].head, static_cast<std::int64_t>(i % 2));
  }
  EXPECT_NEAR(found[0].entropy, entropy, 1e-6);
  EXPECT_NEAR(found[0].p_max, p_max, 1e-6);
  ASSERT_TRUE(found[0].mass);
  EXPECT_NEAR(*found[0].mass, mass, 1e-6);
  EXPECT_EQ(found[1].entropy, 0);
  EXPECT_EQ(found[1].p_max, 1);
  // Of the queries at and after the token only its own attends to it.
  EXPECT_NEAR(*found[1].mass, 1.0 / (kLength - kToken), 1e-12);
}

TEST(AttentionStatistics, NoTokenNoMass) {
  for (const HeadStatistics& entry : attention_statistics({two_heads(3)})) {
    EXPECT_FALSE(entry.mass);
  }
  EXPECT_TRUE(attention_statistics({}).empty());
  EXPECT_THROW(attention_statistics({two_heads(3)}, 3), c10::Error);
}

}  // namespace
}  // namespace ssa
