// The edges of the fused kernels: nothing visible, poison where nobody looks, huge scores, limits
// of the parameters.
#include <gtest/gtest.h>

#include "kernels/judge.h"
#include "kernels/scratch.h"
#include "ssa/philox.h"

namespace ssa::test {
namespace {

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
      hide_keys(clean, o, hidden);
      Inputs<float> poisoned = clean;
      poison_keys(poisoned, o, hidden);
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

/// Weights of 2^−115 beside a sink are no zeros (found by fuzz, seed 256971471).
TEST(Edges, SmallWeightsBesideASink) {
  for (const std::string_view score : {"softmax1", "sink"}) {
    Options o = base(9, 20);
    o.score = score;
    o.bias = true;
    o.bias_broadcast = {true, true, true, true};
    Inputs<float> in = make_inputs(o);
    in.bias.each([](float& x) { x = -80; });
    in.connect(o);
    const Results<float> fused = run_fused(in, o, serial()), plain = run_plain(in, o);
    const Results<double> exact = run_plain(inputs_as<double>(in, o), o);
    for (const auto member : {&Results<float>::d_value, &Results<float>::d_key}) {
      const bool of_value = member == &Results<float>::d_value;
      const auto& truth = of_value ? exact.d_value : exact.d_key;
      const Error error = error_of(fused.*member, truth);
      EXPECT_GT(error.truth, 1e-36);
      EXPECT_LE(error.error, 3 * error_of(plain.*member, truth).error +
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

}  // namespace
}  // namespace ssa::test
