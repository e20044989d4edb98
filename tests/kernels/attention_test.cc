// The fused kernels against the reference: shapes, features, targets, threads.
#include <gtest/gtest.h>

#include "kernels/problem.h"
#include "kernels/scratch.h"

namespace ssa::test {
namespace {

class EveryScore : public ::testing::TestWithParam<std::string_view> {
 protected:
  EveryScore() { fill_scratch_with_nan(true); }
  ~EveryScore() override { fill_scratch_with_nan(false); }

  static Options square(std::int64_t length, std::int64_t dim) {
    Options o;
    o.score = GetParam();
    o.query_length = o.key_length = length;
    o.qk_dim = o.v_dim = dim;
    o.query_heads = o.kv_heads = 2;
    return o;
  }
};

TEST_P(EveryScore, CausalLengths1To130) {
  Judge judge;
  for (std::int64_t length = 1; length <= 130 && !HasFailure(); ++length) {
    Options o = square(length, 5 + length % 30);
    o.causal = true;
    judge.check(o, serial());
  }
}

TEST_P(EveryScore, FullLengths1To130) {
  Judge judge;
  for (std::int64_t length = 1; length <= 130 && !HasFailure(); length += 3) {
    judge.check(square(length, 64), serial());
  }
}

TEST_P(EveryScore, LongLengths) {
  Judge judge;
  for (const std::int64_t length : {511, 512, 513, 767, 768, 769}) {
    Options o = square(length, length % 2 == 0 ? 32 : 41);
    o.causal = length != 512;
    judge.check(o, thread_pool(2));
  }
}

TEST_P(EveryScore, HeadDimensions) {
  Judge judge;
  for (std::int64_t dim = 1; dim <= 70; ++dim) {
    Options o = square(29, dim);
    o.v_dim = 71 - dim;
    judge.check(o, serial());
  }
  for (const std::int64_t dim : {96, 128, 200}) judge.check(square(40, dim), serial());
}

/// A random problem: every feature on or off, every layout, small and middle sizes, zero included.
Options random_options(std::string_view score, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  const auto coin = [&] { return below(2) == 1; };
  Options o;
  o.seed = seed;
  o.score = score;
  o.batch = 1 + below(3);
  o.kv_heads = 1 + below(3);
  o.query_heads = o.kv_heads * (1 + below(3));
  const std::int64_t longest = below(4) == 0 ? 200 : 40;
  o.query_length = 1 + below(longest);
  o.key_length = coin() ? o.query_length : 1 + below(longest);
  o.qk_dim = 1 + below(40);
  o.v_dim = coin() ? o.qk_dim : 1 + below(70);
  o.causal = coin();
  o.mask = coin();
  o.bias = coin();
  o.infinite_bias = coin();
  o.key_lengths = coin();
  o.d_lse = coin();
  o.shared_params = coin();
  for (bool& flag : o.mask_broadcast) flag = coin();
  for (bool& flag : o.bias_broadcast) flag = coin();
  o.layout = static_cast<Layout>(below(4));
  // 30: for softmax far beyond what the bound allows, so the running maximum works.
  o.magnitude = below(4) == 0 ? 30 : 1;
  return o;
}

TEST_P(EveryScore, RandomFeatures) {
  Judge judge;
  for (std::uint64_t seed = 1; seed <= 150 && !HasFailure(); ++seed) {
    judge.check(random_options(GetParam(), seed), seed % 2 == 0 ? thread_pool(2) : serial());
  }
}

TEST_P(EveryScore, RandomFeaturesOnEveryTarget) {
  for_each_target([&] {
    Judge judge;
    for (std::uint64_t seed = 1000; seed < 1020 && !HasFailure(); ++seed) {
      judge.check(random_options(GetParam(), seed), serial());
    }
  });
}

std::vector<std::string_view> score_names() {
  std::vector<std::string_view> names;
  for (const ScoreInfo& score : scores()) names.push_back(score.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Scores, EveryScore, ::testing::ValuesIn(score_names()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ssa::test
