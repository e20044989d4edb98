// Results and threads: same bits, splits of keys and queries, the pool.
#include <gtest/gtest.h>

#include <atomic>

#include "kernels/judge.h"

namespace ssa::test {
namespace {

TEST(Threads, SameInputAndThreadsSameBits) {
  for (const bool bias : {false, true}) {
    Options o = base(150, 150);
    o.bias = bias;
    o.bias_broadcast = {true, true, false, false};
    o.causal = true;
    const Inputs<float> in = make_inputs(o);
    for (const int threads : {1, 2, 3, 8, 64}) {
      const Results<float> first = run_fused(in, o, pretend(threads));
      Parallel real = thread_pool(3);
      real.threads = threads;
      for (int repeat = 0; repeat < 3; ++repeat) {
        EXPECT_TRUE(same_bits(first, run_fused(in, o, real))) << threads;
      }
    }
  }
}

TEST(Threads, WithoutAnyGivenWorkIsDoneInOrderByTheCaller) {
  const Options o = base(150, 150);
  const Inputs<float> in = make_inputs(o);
  EXPECT_TRUE(same_bits(run_fused(in, o, Parallel{}), run_fused(in, o, serial())));
  EXPECT_TRUE(same_bits(run_fused(in, o, Parallel{.threads = 4}), run_fused(in, o, pretend(4))));
}

/// One key with scores of some hundreds: the ranges without it have small scores, but rows whose
/// lse is that key's (found by fuzz, seed 1219303432). Splits must err no more than the whole does.
TEST(Threads, RangesWithoutTheKeyThatHasAllWeight) {
  for (const std::string_view score : {"softmax", "temperature", "ssa", "softmax1"}) {
    Options o = base(9, 600);
    o.score = score;
    o.batch = o.query_heads = o.kv_heads = 1;
    if (score == "ssa") o.params = {60, 1};
    Inputs<float> in = make_inputs(o);
    for (std::int64_t c = 0; c < o.qk_dim; ++c) *in.key.view().at(0, 0, 590, c) *= 300;
    in.connect(o);
    const Results<float> split = run_fused(in, o, pretend(4)), whole = run_fused(in, o, serial());
    const Results<double> exact = run_plain(inputs_as<double>(in, o), o);
    const auto judge = [&](const char* name, const Error& ours, const Error& theirs) {
      EXPECT_LE(theirs.error, 3e-4 * theirs.truth) << score << ' ' << name;
      EXPECT_LE(ours.error,
                2 * theirs.error + 4 * std::numeric_limits<float>::epsilon() * ours.truth)
          << score << ' ' << name;
    };
    judge("d_query", error_of(split.d_query, exact.d_query),
          error_of(whole.d_query, exact.d_query));
    judge("d_key", error_of(split.d_key, exact.d_key), error_of(whole.d_key, exact.d_key));
    judge("d_value", error_of(split.d_value, exact.d_value),
          error_of(whole.d_value, exact.d_value));
  }
}

TEST(Threads, ForwardDoesNotDependOnThem) {
  Options o = base(300, 300);
  o.batch = 1;
  o.query_heads = o.kv_heads = 1;
  o.causal = true;
  const Inputs<float> in = make_inputs(o);
  Results<float> one(o);
  attention_forward(in.args, one.out.view(), one.lse.data(), serial());
  for (const int threads : {2, 7, 100}) {
    Results<float> many(o);
    attention_forward(in.args, many.out.view(), many.lse.data(), pretend(threads));
    EXPECT_EQ(one.lse, many.lse);
    EXPECT_EQ(values_of(one.out), values_of(many.out));
  }
}

TEST(Threads, OneHeadUsesThemAll) {
  Options o = base(1000, 1000);
  o.batch = o.query_heads = o.kv_heads = 1;
  o.causal = true;
  const Inputs<float> in = make_inputs(o);
  std::vector<std::int64_t> counts;
  const Parallel counting{8,
                          [&](std::int64_t count, const std::function<void(std::int64_t)>& task) {
                            counts.push_back(count);
                            for (std::int64_t i = 0; i < count; ++i) task(i);
                          }};
  run_fused(in, o, counting);
  ASSERT_GE(counts.size(), 2u);
  EXPECT_GE(counts[0], 8);  // forward
  EXPECT_GE(counts[1], 8);  // backward
}

TEST(Threads, SplitsAgreeWithTheReference) {
  for (const ScoreInfo& score : phi_scores()) {
    Judge judge;
    for (std::uint64_t seed = 1; seed <= 12; seed += kThin) {
      Options o = base(100 + 13 * static_cast<std::int64_t>(seed), 190);
      o.score = score.name;
      o.batch = 1;
      o.seed = seed;
      o.causal = seed % 2 == 0;
      o.bias = seed % 3 != 0;
      for (int d = 0; d < 4; ++d) o.bias_broadcast[d] = ((seed >> d) & 1) != 0;
      judge.check(o, pretend(5));
    }
  }
}

/// Tasks of one head whose keys differ so much in size that the bound of |φ| holds for some of them
/// only.
TEST(Threads, SplitsOfUnequalKeysAgreeWithTheReference) {
  for (const ScoreInfo& score : phi_scores()) {
    SCOPED_TRACE(std::string(score.name));
    Options o = base(60, 190);
    o.score = score.name;
    o.batch = 1;
    Inputs<float> in = make_inputs(o);
    std::int64_t element = 0;
    const std::int64_t half = o.key_length * o.qk_dim / 2;
    in.key.each([&](float& x) { x *= element++ % (2 * half) < half ? 0.1f : 8.0f; });
    in.connect(o);
    const Results<float> fused = run_fused(in, o, pretend(5)), plain = run_plain(in, o);
    const Results<double> exact = run_plain(inputs_as<double>(in, o), o);
    for (std::size_t k = 0; k < score.params.size(); ++k) {
      const Error ours = error_of(fused.d_params[k], exact.d_params[k]);
      const Error theirs = error_of(plain.d_params[k], exact.d_params[k]);
      EXPECT_LE(ours.error, 3 * theirs.error + 1e-5 * ours.truth) << score.params[k].name;
    }
  }
}

TEST(Threads, PoolRunsEveryTaskOnceAndPassesErrorsOn) {
  const Parallel pool = thread_pool(4);
  EXPECT_EQ(pool.threads, 4);
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::vector<std::atomic<int>> runs(97);
    pool.run(97, [&](std::int64_t i) { ++runs[i]; });
    for (const auto& count : runs) EXPECT_EQ(count, 1);
  }
  EXPECT_THROW(pool.run(50,
                        [](std::int64_t i) {
                          if (i == 20) throw std::runtime_error("task 20");
                        }),
               std::runtime_error);
  std::atomic<int> sum = 0;
  pool.run(3, [&](std::int64_t) { pool.run(5, [&](std::int64_t) { ++sum; }); });
  EXPECT_EQ(sum, 15);
  pool.run(0, [](std::int64_t) { FAIL(); });
}

}  // namespace
}  // namespace ssa::test
