// The fused kernels against the reference: shapes, features, targets, threads.
#include <gtest/gtest.h>

#include "kernels/judge.h"
#include "kernels/scratch.h"
#include "kernels/target.h"

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
  for (std::int64_t length = 1; length <= 130 && !HasFailure(); length += kThin) {
    Options o = square(length, 5 + length % 30);
    o.causal = true;
    judge.check(o, serial());
  }
}

TEST_P(EveryScore, FullLengths1To130) {
  Judge judge;
  for (std::int64_t length = 1; length <= 130 && !HasFailure(); length += 3 * kThin) {
    judge.check(square(length, 64), serial());
  }
}

TEST_P(EveryScore, LongLengths) {
  Judge judge;
  for (const std::int64_t length : {511, 512, 513, 767, 768, 769}) {
    if (kThin > 1 && length != 513) continue;
    Options o = square(length, length % 2 == 0 ? 32 : 41);
    o.causal = length != 512;
    judge.check(o, thread_pool(2));
  }
}

/// Windows and lengths around the blocks of rows (96) and keys (128, 256), queries fewer and more
/// than keys.
TEST_P(EveryScore, Windows) {
  Judge judge;
  std::uint64_t seed = 0;
  for (const std::int64_t window : {1, 2, 63, 64, 65, 100, 300, 5000}) {
    for (const auto& [rows, keys] :
         {std::pair{300, 300}, {97, 700}, {1, 400}, {300, 90}, {530, 530}}) {
      if (++seed % kThin != 0) continue;
      Options o = square(keys, 20);
      o.query_length = rows;
      o.window = window;
      o.causal = seed % 2 == 0;
      o.key_lengths = seed % 5 == 0;
      o.mask = seed % 7 == 0;
      o.seed = seed;
      judge.check(o, seed % 3 == 0 ? thread_pool(2) : serial());
    }
  }
}

/// Slopes for which the bound of |φ| holds and for which it does not, and a window beside them.
TEST_P(EveryScore, Alibi) {
  Judge judge;
  for (std::uint64_t seed = 1; seed <= 24; seed += kThin) {
    Options o = square(seed % 4 == 0 ? 300 : 20 + 7 * static_cast<std::int64_t>(seed), 24);
    o.query_length = seed % 3 == 0 ? o.key_length / 2 + 5 : o.key_length;
    o.alibi = std::array{0.01, 0.5, -0.01, 8.0}[seed / 2 % 4];
    o.causal = seed % 2 == 0;
    o.bias = seed % 5 == 0;
    o.window = seed % 7 == 0 ? 40 : 0;
    o.seed = seed;
    judge.check(o, seed % 3 == 0 ? thread_pool(2) : serial());
  }
}

TEST_P(EveryScore, Dropout) {
  Judge judge;
  for (std::uint64_t seed = 1; seed <= 24; seed += kThin) {
    Options o = square(seed % 4 == 0 ? 300 : 20 + 7 * static_cast<std::int64_t>(seed), 24);
    o.dropout = seed % 3 == 0 ? 0.5 : 0.1;
    o.causal = seed % 2 == 0;
    o.d_lse = seed % 5 == 0;
    o.batch = 2;
    o.seed = seed;
    judge.check(o, seed % 3 == 0 ? thread_pool(2) : serial());
  }
}

TEST_P(EveryScore, PackedSequences) {
  Judge judge;
  for (std::uint64_t seed = 1; seed <= 50; seed += kThin) {
    judge.check(packed(random_options(GetParam(), seed), seed),
                seed % 2 == 0 ? thread_pool(2) : serial());
  }
}

TEST_P(EveryScore, HeadDimensions) {
  Judge judge;
  for (std::int64_t dim = 1; dim <= 70; dim += kThin) {
    Options o = square(29, dim);
    o.v_dim = 71 - dim;
    judge.check(o, serial());
  }
  for (const std::int64_t dim : {96, 128, 200}) judge.check(square(40, dim), serial());
}

TEST_P(EveryScore, RandomFeatures) {
  Judge judge;
  for (std::uint64_t seed = 1; seed <= 150 && !HasFailure(); seed += kThin) {
    judge.check(random_options(GetParam(), seed), seed % 2 == 0 ? thread_pool(2) : serial());
  }
}

TEST_P(EveryScore, RandomFeaturesOnEveryTarget) {
  for_each_target([&] {
    Judge judge;
    for (std::uint64_t seed = 1000; seed < 1020 && !HasFailure(); seed += kThin) {
      const Options o = random_options(GetParam(), seed);
      judge.check(seed % 4 == 0 ? packed(o, seed) : o, serial());
    }
  });
}

/// With the processor's own products of bfloat16 where it has them, and widened to float.
TEST_P(EveryScore, BFloat16) {
  for (const bool products : {true, false}) {
    allow_bfloat16_products(products);
    SCOPED_TRACE(has_bfloat16_products() ? "own products" : "widened");
    Judge judge;
    for (std::uint64_t seed = 1; seed <= 150 && !HasFailure(); seed += kThin) {
      judge.check<BFloat16>(random_options(GetParam(), seed),
                            seed % 2 == 0 ? thread_pool(2) : serial());
    }
    for (const std::int64_t length : {1, 2, 95, 96, 97, 128, 129, 300, 513}) {
      Options o = square(length, length % 2 == 0 ? 64 : 33);
      o.causal = length != 128;
      if (kThin == 1 || length < 100) judge.check<BFloat16>(o, serial());
    }
  }
  allow_bfloat16_products(true);
}

std::vector<std::string_view> score_names() {
  std::vector<std::string_view> names;
  for (const ScoreInfo& score : phi_scores()) names.push_back(score.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Scores, EveryScore, ::testing::ValuesIn(score_names()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ssa::test
