// The edges of the fused kernels: nothing visible, poison where nobody looks, huge scores, limits
// of the parameters, bad arguments, threads, instruction sets.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "kernels/judge.h"
#include "kernels/scratch.h"
#include "ssa/philox.h"

namespace ssa::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Options base(std::int64_t query_length, std::int64_t key_length) {
  Options o;
  o.query_length = query_length;
  o.key_length = key_length;
  o.query_heads = 4;
  o.kv_heads = 2;
  o.qk_dim = 20;
  o.v_dim = 12;
  o.batch = 2;
  return o;
}

/// All values that a run wrote, in one row.
std::vector<float> all_values(const Results<float>& r) {
  std::vector<float> all;
  const auto append = [&](const auto& values) {
    for (const double v : values_of(values)) all.push_back(static_cast<float>(v));
  };
  append(r.out);
  append(r.lse);
  append(r.d_query);
  append(r.d_key);
  append(r.d_value);
  append(r.d_bias);
  for (const auto& values : r.d_params) append(values);
  return all;
}

bool same_bits(const Results<float>& a, const Results<float>& b) {
  const std::vector<float> x = all_values(a), y = all_values(b);
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

TEST(Edges, EmptyDimensions) {
  for (const ScoreInfo& score : phi_scores()) {
    for (int which = 0; which < 6; ++which) {
      Options o = base(5, 7);
      o.score = score.name;
      o.bias = o.mask = which % 2 == 0;
      if (which == 0) o.batch = 0;
      if (which == 1) o.query_heads = o.kv_heads = 0;
      if (which == 2) o.query_length = 0;
      if (which == 3) o.key_length = 0;
      if (which == 4) o.qk_dim = 0;
      if (which == 5) o.v_dim = 0;
      SCOPED_TRACE(::testing::Message() << o);
      Judge().check(o, serial());
      Judge().check(o, thread_pool(2));
    }
  }
}

TEST(Edges, RowsThatSeeNothingAreZero) {
  Options o = base(30, 11);  // the first 19 queries see no key
  o.causal = o.d_lse = true;
  const Inputs<float> in = make_inputs(o);
  Results<float> r = run_fused(in, o, serial());
  for (std::int64_t b = 0; b < o.batch; ++b) {
    for (std::int64_t h = 0; h < o.query_heads; ++h) {
      for (std::int64_t i = 0; i < o.query_length; ++i) {
        const bool sees = i >= 19;
        EXPECT_EQ(r.lse[(b * o.query_heads + h) * o.query_length + i] == -kInf, !sees);
        EXPECT_EQ(*r.out.view().at(b, h, i, 0) == 0, !sees);
        EXPECT_EQ(*r.d_query.view().at(b, h, i, 0) == 0, !sees);
      }
    }
  }
  Judge().check(o, serial());
}

/// Queries and gradients of rows that see nothing do not reach any other result.
TEST(Edges, PoisonInRowsThatSeeNothing) {
  Options o = base(30, 11);
  o.causal = true;
  Inputs<float> clean = make_inputs(o), poisoned = clean;
  for (std::int64_t i = 0; i < 19; ++i) {
    *poisoned.query.view().at(1, 2, i, 3) = kNan;
    *poisoned.d_out.view().at(0, 1, i, 3) = kInf;
  }
  poisoned.connect(o);
  clean.connect(o);
  EXPECT_TRUE(same_bits(run_fused(clean, o, serial()), run_fused(poisoned, o, serial())));
}

/// NaN and infinity in keys and values that no row may see change nothing, whatever hides them.
TEST(Edges, PoisonInHiddenKeys) {
  for (const ScoreInfo& score : phi_scores()) {
    for (int hider = 0; hider < 5; ++hider) {
      SCOPED_TRACE(::testing::Message() << score.name << ", hidden by " << hider);
      Options o = base(33, hider == 4 ? 400 : 40);
      o.window = hider == 4 ? 20 : 0;  // the first query stands at key 367 and sees from 348 on
      o.score = score.name;
      o.causal = hider == 3;
      o.key_lengths = hider == 0;
      o.mask = hider == 1 || hider == 3;
      o.bias = hider == 2;
      Inputs<float> clean = make_inputs(o);
      clean.key_lengths = {17, 17};
      std::vector<std::int64_t> hidden{0, 5, 39};
      if (hider == 0) hidden = {17, 25, 39};
      if (hider == 4) hidden = {0, 256, 319, 320, 346, 347};
      for (std::int64_t b = 0; b < o.batch; ++b) {
        for (std::int64_t h = 0; h < o.query_heads; ++h) {
          for (std::int64_t i = 0; i < o.query_length; ++i) {
            for (const std::int64_t j : hidden) {
              if (o.mask) *clean.mask.view().at(b, h, i, j) = false;
              if (o.bias) *clean.bias.view().at(b, h, i, j) = -kInf;
            }
          }
        }
      }
      Inputs<float> poisoned = clean;
      for (std::int64_t b = 0; b < o.batch; ++b) {
        for (std::int64_t h = 0; h < o.kv_heads; ++h) {
          for (const std::int64_t j : hidden) {
            *poisoned.key.view().at(b, h, j, j % 3) = kNan;
            *poisoned.key.view().at(b, h, j, 7) = -kInf;
            *poisoned.value.view().at(b, h, j, j % 5) = j % 2 == 0 ? kInf : kNan;
          }
        }
      }
      clean.connect(o);
      poisoned.connect(o);
      const Results<float> a = run_fused(clean, o, serial()), b = run_fused(poisoned, o, serial());
      // The poisoned keys' own gradients are zero in both.
      EXPECT_TRUE(same_bits(a, b));
      for (const float v : all_values(b)) EXPECT_FALSE(std::isnan(v));
    }
  }
}

/// The time of a window grows with the length, not with its square: keys far outside it are not
/// multiplied, not even by zero.
TEST(Edges, KeysOutsideTheWindowDoNotMeetTheRow) {
  Options o = base(600, 600);
  o.window = 10;
  o.causal = true;
  Inputs<float> in = make_inputs(o);
  for (std::int64_t j = 0; j < 200; ++j) *in.value.view().at(0, 0, j, 3) = kNan;
  in.connect(o);
  Results<float> r = run_fused(in, o, serial());
  for (std::int64_t i = 0; i < o.query_length; ++i) {
    const float out = *r.out.view().at(0, 0, i, 3);
    if (i < 200) {
      EXPECT_TRUE(std::isnan(out)) << i;
    } else if (i >= 200 + 9 + 6) {  // strips of up to six rows share the last poisoned keys
      EXPECT_TRUE(std::isfinite(out)) << i;
    }
  }
}

TEST(Edges, NanInAVisibleKeyGivesNan) {
  for (const ScoreInfo& score : phi_scores()) {
    for (const bool mask : {false, true}) {
      Options o = base(6, 20);
      o.score = score.name;
      o.mask = mask;
      Inputs<float> in = make_inputs(o);
      if (mask) in.mask.each([](bool& x) { x = true; });
      *in.key.view().at(0, 0, 3, 1) = kNan;
      in.connect(o);
      Results<float> r = run_fused(in, o, serial());
      for (std::int64_t i = 0; i < o.query_length; ++i) {
        EXPECT_TRUE(std::isnan(*r.out.view().at(0, 0, i, 2)));
        EXPECT_TRUE(std::isnan(r.lse[i]));
        EXPECT_TRUE(std::isnan(*r.d_query.view().at(0, 0, i, 2)));
        EXPECT_FALSE(std::isnan(*r.out.view().at(1, 0, i, 2)));
      }
    }
  }
}

/// Scores of 1e3 to 1e5: softmax is saturated, SSA is not.
TEST(Edges, HugeScores) {
  for (const ScoreInfo& score : phi_scores()) {
    for (const double magnitude : {1e3, 1e5}) {
      Judge judge;
      for (std::uint64_t seed = 1; seed <= 16; ++seed) {
        Options o = base(40, 40);
        o.score = score.name;
        o.causal = seed % 2 == 0;
        o.magnitude = magnitude;
        o.seed = seed;
        judge.check(o, serial());
      }
    }
  }
}

/// Exponents on both sides of the bound of |φ| below which no maximum is kept (with these inputs
/// about 9), and far beyond it.
TEST(Edges, BorderOfTheBound) {
  for_each_target([&] {
    Judge judge;
    for (double n = 1; n <= 50; n = n < 16 ? n + 1 : 2 * n + 2) {
      Options o = base(40, 40);
      o.qk_dim = 64;
      o.causal = true;
      o.params = {n, 1};
      o.seed = static_cast<std::uint64_t>(n);
      judge.check(o, serial());
    }
  });
}

/// Scores up to ±1e38: SSA stays a power, and its weights are those of the largest scores.
TEST(Edges, ScoresOf1e38) {
  for_each_target([&] {
    for (const double n : {1.5, 8.0, 50.0}) {
      Judge judge;
      for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        Options o = base(40, 40);
        o.causal = seed % 2 == 0;
        o.magnitude = 3e37;
        o.params = {n, 0.8};
        o.seed = seed;
        judge.check(o, serial());
      }
    }
  });
}

/// With few keys and scores of some −100, the sink is nearly the whole normaliser, but lse, which
/// is without it, has gradients as large as ever.
TEST(Edges, KeysThatVanishBesideTheSink) {
  for (const ScoreInfo& score : phi_scores()) {
    Judge judge;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      Options o = base(40, 3);
      o.score = score.name;
      o.d_lse = true;
      o.magnitude = 60;
      o.seed = seed;
      judge.check(o, serial());
    }
  }
}

/// Values so large that sums without a running maximum overflow, and scores that allow to go
/// without.
TEST(Edges, HugeValues) {
  Options o = base(12, 50);
  o.params = {8, 1};
  Inputs<float> in = make_inputs(o);
  in.value.each([](float& x) { x = std::abs(x) * 1e37f; });
  in.connect(o);
  Results<float> r(o);
  attention_forward(in.args, r.out.view(), r.lse.data(), serial());
  const Inputs<double> exact_in = inputs_as<double>(in, o);
  Results<double> exact(o);
  reference_forward(exact_in.args, exact.out.view(), exact.lse.data());
  const Error error = error_of(r.out, exact.out);
  EXPECT_LT(error.error, 1e-5 * error.truth);
}

/// Five keys of one score, so large that its sum with log 5 is the score itself.
TEST(Edges, HugeEqualScoresBesideASink) {
  for (const std::string_view score : {"softmax1", "sink"}) {
    Options o = base(7, 5);
    o.score = score;
    o.bias = true;
    o.bias_broadcast = {true, true, true, true};
    Inputs<float> in = make_inputs(o);
    in.bias.each([](float& x) { x = 1e30f; });
    in.connect(o);
    Results<float> r = run_fused(in, o, serial());
    for (std::int64_t c = 0; c < o.v_dim; ++c) {
      double sum = 0;  // over the rows of the group, each with weight 1/5
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t i = 0; i < o.query_length; ++i) {
          sum += *in.d_out.view().at(0, h, i, c) / 5.0;
        }
      }
      EXPECT_NEAR(*r.d_value.view().at(0, 0, 3, c), sum, 14 * 4e-7);
    }
  }
}

/// The sink has all weight; lse, which is without it, has a gradient as ever.
TEST(Edges, GradientOfLseWhereASinkHasAllWeight) {
  for (const std::string_view score : {"softmax1", "sink"}) {
    for (const std::int64_t length : {9, 70}) {
      Options o = base(length, length);
      o.score = score;
      o.bias = o.d_lse = true;
      o.bias_broadcast = {true, true, true, true};
      Inputs<float> in = make_inputs(o);
      in.bias.each([](float& x) { x = -130; });
      in.connect(o);
      const Results<float> fused = run_fused(in, o, serial()), plain = run_plain(in, o);
      const Results<double> exact = run_plain(inputs_as<double>(in, o), o);
      const Error error = error_of(fused.d_query, exact.d_query);
      EXPECT_GT(error.truth, 0.1);
      EXPECT_LE(error.error, 3 * error_of(plain.d_query, exact.d_query).error +
                                 4 * std::numeric_limits<float>::epsilon() * error.truth);
    }
  }
}

TEST(Edges, SsaTowardsSoftmax) {
  // n = 1e5, b = 1e-5: φ = n·log(1 + b·s) needs log1p's digits.
  Judge judge;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    Options o = base(50, 50);
    o.params = {1e5, 1e-5};
    o.seed = seed;
    judge.check(o, serial());
  }
}

TEST(Edges, ExactZeroScores) {
  for (const ScoreInfo& score : phi_scores()) {
    Options o = base(9, 21);
    o.score = score.name;
    o.magnitude = 0;
    Judge judge;
    judge.check(o, serial());
  }
}

/// Any subset of the gradients may be wanted; the others are the same then.
TEST(Edges, EachGradientAlone) {
  Options o = base(70, 70);
  o.causal = o.bias = true;
  const Inputs<float> in = make_inputs(o);
  const Results<float> all = run_fused(in, o, serial());
  for (int wanted = 0; wanted < 6; ++wanted) {
    SCOPED_TRACE(wanted);
    Results<float> r(o);
    AttentionGradients<float> some;
    if (wanted == 0) some.query = r.gradients.query;
    if (wanted == 1) some.key = r.gradients.key;
    if (wanted == 2) some.value = r.gradients.value;
    if (wanted == 3) some.bias = r.gradients.bias;
    if (wanted >= 4) some.params[wanted - 4] = r.gradients.params[wanted - 4];
    attention_backward(in.args, all.out.view(), all.lse.data(), in.d_out.view(), nullptr, some,
                       serial());
    const auto expect_same = [&](int which, const std::vector<double>& a,
                                 const std::vector<double>& b) {
      for (std::size_t i = 0; i < a.size(); ++i) {
        if (which == wanted) {
          EXPECT_EQ(a[i], b[i]);
        } else {
          EXPECT_TRUE(std::isnan(a[i]));
        }
      }
    };
    expect_same(0, values_of(r.d_query), values_of(all.d_query));
    expect_same(1, values_of(r.d_key), values_of(all.d_key));
    expect_same(2, values_of(r.d_value), values_of(all.d_value));
    expect_same(3, values_of(r.d_bias), values_of(all.d_bias));
    expect_same(4, values_of(r.d_params[0]), values_of(all.d_params[0]));
    expect_same(5, values_of(r.d_params[1]), values_of(all.d_params[1]));
  }
}

/// Runs tasks last to first and claims to have that many threads: the plan splits as for them.
Parallel pretend(int threads) {
  return {threads, [](std::int64_t count, const std::function<void(std::int64_t)>& task) {
            for (std::int64_t i = count; i-- > 0;) task(i);
          }};
}

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

/// Scores of 0 and values that are the unit matrix: out is the weights themselves.
TEST(Dropout, FallsByTheWordsOnEveryTarget) {
  for_each_target([] {
    for (const bool mask : {false, true}) {
      Options o = base(90, 600);  // blocks of keys that do not end where groups of 64 do
      o.v_dim = 600;
      o.dropout = 0.3;
      o.mask = mask;
      o.magnitude = 0;
      Inputs<float> in = make_inputs(o);
      if (mask) in.mask.each([](bool& x) { x = true; });
      std::int64_t element = 0;
      in.value.each([&](float& x) {
        x = element % 600 == element / 600 % 600 ? 1.0f : 0.0f;
        ++element;
      });
      in.connect(o);
      in.args.seed = 0x0123456789abcdef;
      in.args.first_sequence = 5;
      Results<float> r(o);
      attention_forward(in.args, r.out.view(), r.lse.data(), serial());
      for (std::int64_t b = 0; b < o.batch; ++b) {
        for (std::int64_t h = 0; h < o.query_heads; ++h) {
          for (std::int64_t i = 0; i < o.query_length; ++i) {
            for (std::int64_t group = 0; group * 64 < 600; ++group) {
              const auto words = dropout_words(0x0123456789abcdef, 5 + b, h, i, group);
              for (std::int64_t j = group * 64; j < std::min<std::int64_t>(600, group * 64 + 64);
                   ++j) {
                const bool falls = words[j - group * 64] < dropout_threshold(0.3);
                ASSERT_EQ(*r.out.view().at(b, h, i, j) == 0, falls) << b << h << i << " " << j;
              }
            }
          }
        }
      }
    }
  });
}

TEST(Dropout, DoesNotDependOnThreads) {
  Options o = base(300, 300);
  o.batch = o.query_heads = o.kv_heads = 1;
  o.dropout = 0.4;
  const Inputs<float> in = make_inputs(o);
  Results<float> one(o), many(o);
  attention_forward(in.args, one.out.view(), one.lse.data(), serial());
  attention_forward(in.args, many.out.view(), many.lse.data(), pretend(7));
  EXPECT_EQ(values_of(one.out), values_of(many.out));
  o.dropout = 0;
  const Inputs<float> without = make_inputs(o);
  Results<float> plain(o);
  attention_forward(without.args, plain.out.view(), plain.lse.data(), serial());
  EXPECT_EQ(plain.lse, one.lse);  // the normaliser is not changed
}

/// Whatever other sequences hold, a packed sequence has the bits of a call of its own.
TEST(Packed, SequencesAreCallsOfTheirOwn) {
  Options o = base(0, 0);
  o.batch = 1;
  o.query_lengths = {12, 1, 0, 130, 40};
  o.key_lengths_packed = {12, 7, 5, 130, 0};
  o.query_length = 183;
  o.key_length = 154;
  o.causal = true;
  o.dropout = 0.2;
  o.layout = Layout::kTokenMajor;
  Inputs<float> in = make_inputs(o);
  for (std::int64_t j = 20; j < 24; ++j) *in.key.view().at(0, 1, j, 3) = kNan;  // seen by no query
  *in.value.view().at(0, 0, 24 + 129, 0) = kNan;
  in.connect(o);
  Results<float> together = run_fused(in, o, serial());
  std::int64_t query = 0, key = 0;
  for (std::size_t s = 0; s < o.query_lengths.size(); ++s) {
    Options one = o;
    one.query_length = o.query_lengths[s];
    one.key_length = o.key_lengths_packed[s];
    one.query_lengths.clear();
    AttentionArgs<float> args = in.args;
    args.cu_query = args.cu_key = nullptr;
    args.query_length = one.query_length;
    args.key_length = one.key_length;
    args.first_sequence = static_cast<std::int64_t>(s);
    args.query.data = in.args.query.at(0, 0, query);
    args.key.data = in.args.key.at(0, 0, key);
    args.value.data = in.args.value.at(0, 0, key);
    Results<float> alone(one);
    attention_forward(args, alone.out.view(), alone.lse.data(), serial());
    View4<const float> d_out = std::as_const(in.d_out).view();
    d_out.data = d_out.at(0, 0, query);
    attention_backward(args, std::as_const(alone.out).view(), alone.lse.data(), d_out, nullptr,
                       alone.gradients, serial());
    const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
    for (std::int64_t h = 0; h < o.query_heads; ++h) {
      for (std::int64_t i = 0; i < one.query_length; ++i) {
        EXPECT_TRUE(same(alone.lse[h * one.query_length + i],
                         together.lse[h * o.query_length + query + i]));
        for (std::int64_t c = 0; c < o.v_dim; ++c) {
          EXPECT_TRUE(
              same(*alone.out.view().at(0, h, i, c), *together.out.view().at(0, h, query + i, c)));
        }
        for (std::int64_t c = 0; c < o.qk_dim; ++c) {
          EXPECT_TRUE(same(*alone.d_query.view().at(0, h, i, c),
                           *together.d_query.view().at(0, h, query + i, c)));
        }
      }
    }
    for (std::int64_t h = 0; h < o.kv_heads; ++h) {
      for (std::int64_t j = 0; j < one.key_length; ++j) {
        EXPECT_TRUE(
            same(*alone.d_key.view().at(0, h, j, 0), *together.d_key.view().at(0, h, key + j, 0)));
        EXPECT_TRUE(same(*alone.d_value.view().at(0, h, j, 0),
                         *together.d_value.view().at(0, h, key + j, 0)));
      }
    }
    query += one.query_length;
    key += one.key_length;
  }
}

TEST(Packed, LongSequencesAreSplitAmongThreads) {
  Judge judge;
  for (std::uint64_t seed = 1; seed <= 12; seed += kThin) {
    Options o = packed(base(0, 0), seed);
    for (std::vector<std::int64_t>* lengths : {&o.query_lengths, &o.key_lengths_packed}) {
      lengths->push_back(400);
    }
    o.query_length += 400;
    o.key_length += 400;
    o.query_heads = o.kv_heads = 1;
    o.seed = seed;
    o.causal = seed % 2 == 0;
    judge.check(o, pretend(8));
  }
}

TEST(Arguments, BadPackedOnesAreRefusedByName) {
  struct Bad {
    std::string_view words;
    std::vector<std::int64_t> query, key;
    bool bias = false;
    std::int64_t batch = 1;
  };
  const Bad cases[] = {
      {"cu_query[0] must be 0, got 1", {1, 5}, {0, 7}},
      {"cu_key must not decrease, but cu_key[1] = 8 and cu_key[2] = 7", {0, 2, 5}, {0, 8, 7}},
      {"cu_query[2] must be the length 5, got 6", {0, 2, 6}, {0, 4, 7}},
      {"cu_key[1] must be the length 7, got 0", {0, 5}, {0, 0}},
      {"packed sequences take no mask, bias or key_lengths", {0, 5}, {0, 7}, true},
      {"packed sequences need a batch of 1, got 2", {0, 5}, {0, 7}, false, 2},
  };
  for (const Bad& bad : cases) {
    Options o = base(5, 7);
    o.batch = bad.batch;
    o.bias = bad.bias;
    const Inputs<float> in = make_inputs(o);
    AttentionArgs<float> args = in.args;
    args.sequences = static_cast<std::int64_t>(bad.query.size()) - 1;
    args.cu_query = bad.query.data();
    args.cu_key = bad.key.data();
    Results<float> r(o);
    try {
      attention_forward(args, r.out.view(), r.lse.data(), serial());
      ADD_FAILURE() << "accepted, expected: " << bad.words;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string_view(error.what()).find(bad.words), std::string_view::npos)
          << error.what();
    }
  }
}

TEST(Arguments, BadOnesAreRefusedByName) {
  struct Bad {
    std::string_view words;
    std::function<void(AttentionArgs<float>&)> spoil;
  };
  static const std::int64_t kTooLong[] = {3, 8};
  static const float kValues[] = {1, 0, kNan, -1};
  const Bad cases[] = {
      {"33 query heads and 2 kv heads", [](auto& a) { a.query_heads = 33; }},
      {"unknown score \"relu\"; known: softmax", [](auto& a) { a.score = "relu"; }},
      {"qk_dim must be >= 0, got -1", [](auto& a) { a.qk_dim = -1; }},
      {"key_length must be >= 0, got -7", [](auto& a) { a.key_length = -7; }},
      {"key_lengths[1] must lie in [0, 7], got 8", [](auto& a) { a.key_lengths = kTooLong; }},
      {"parameter n of score ssa must be finite and > 0, head 1 has 0",
       [](auto& a) {
         a.params[0] = {kValues, 1};
       }},
      {"parameter b of score ssa must be finite and > 0, head 0 has nan",
       [](auto& a) {
         a.params[1] = {kValues + 2, 0};
       }},
      {"parameter b of score ssa must be finite and > 0, head 0 has -1",
       [](auto& a) {
         a.params[1] = {kValues + 3, 0};
       }},
      {"score ssa needs parameter n", [](auto& a) { a.params[0].data = nullptr; }},
      {"scale must be finite", [](auto& a) { a.scale = kInf; }},
      {"alibi_slopes must be finite, head 2 has nan",
       [](auto& a) {
         a.alibi_slopes = {kValues, 1};
       }},
      {"dropout must be in [0, 1), got 1", [](auto& a) { a.dropout = 1; }},
      {"dropout must be in [0, 1), got nan", [](auto& a) { a.dropout = double{kNan}; }},
      {"window must be >= 1, or 0 for none, got -4", [](auto& a) { a.window = -4; }},
      {"value has no data", [](auto& a) { a.value.data = nullptr; }},
  };
  const Options o = base(5, 7);
  const Inputs<float> in = make_inputs(o);
  for (const Bad& bad : cases) {
    AttentionArgs<float> args = in.args;
    bad.spoil(args);
    Results<float> r(o);
    try {
      attention_forward(args, r.out.view(), r.lse.data(), serial());
      ADD_FAILURE() << "accepted, expected: " << bad.words;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string_view(error.what()).find(bad.words), std::string_view::npos)
          << error.what();
    }
    EXPECT_THROW(attention_backward(args, std::as_const(r.out).view(), r.lse.data(),
                                    in.d_out.view(), nullptr, r.gradients, serial()),
                 std::invalid_argument);
  }
}

TEST(Target, EveryOneIsReported) {
  std::vector<std::string> names;
  for_each_target([&] { names.push_back(kernel_target()); });
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(std::string(kernel_target()), names.front());
}

/// SSA_TARGET is read once per process, so these run in children.
TEST(TargetDeathTest, EnvironmentRestrictsIt) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto with = [](const char* value, auto&& body) {
    EXPECT_EXIT(
        {
          setenv("SSA_TARGET", value, 1);
          body();
        },
        ::testing::ExitedWithCode(0), "");
  };
  std::vector<std::string> names;
  for (const std::int64_t t : hwy::SupportedAndGeneratedTargets())
    names.push_back(hwy::TargetName(t));
  for (const std::string& name : names) {
    with(name.c_str(), [&] {
      Options o = base(9, 13);
      run_fused(make_inputs(o), o, serial());
      std::exit(kernel_target() == name ? 0 : 1);
    });
  }
  with("AVX1024", [&] {
    try {
      kernel_target();
    } catch (const std::invalid_argument& error) {
      const std::string text = error.what();
      for (const std::string& name : names) {
        if (text.find(name) == std::string::npos) std::exit(1);
      }
      std::exit(text.find("AVX1024") == std::string::npos ? 1 : 0);
    }
    std::exit(1);
  });
}

}  // namespace
}  // namespace ssa::test
