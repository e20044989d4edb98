// Few queries: the decoding kernel against the reference, and what it promises beyond.
#include "kernels/attention_decode.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/judge.h"
#include "kernels/scratch.h"

namespace ssa::test {
namespace {

class Decode : public ::testing::TestWithParam<std::string_view> {
 protected:
  Decode() { fill_scratch_with_nan(true); }
  ~Decode() override { fill_scratch_with_nan(false); }

  /// 1 to 4 queries; every other problem has more keys than one task.
  static Options few_queries(std::uint64_t seed) {
    Options o = random_options(GetParam(), seed);
    o.window = 0;
    o.dropout = 0;  // with either the general kernel runs
    o.query_length = 1 + static_cast<std::int64_t>(seed % 4);
    if (seed % 2 == 0) o.key_length += 400 * static_cast<std::int64_t>(seed % 5);
    if (seed % 3 == 0) o.qk_dim = 32;
    if (seed % 3 == 0) o.v_dim = seed % 2 == 0 ? 64 : 144;
    return o;
  }
};

struct Forward {
  std::vector<double> out;
  std::vector<float> lse;

  bool operator==(const Forward& other) const {
    const auto same = [](const auto& a, const auto& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
    };
    return same(out, other.out) && same(lse, other.lse);
  }
};

Forward forward(const Inputs<float>& in, const Options& o, const Parallel& parallel) {
  Results<float> r(o);
  attention_forward(in.args, r.out.view(), r.lse.data(), parallel);
  return {values_of(r.out), r.lse};
}

TEST_P(Decode, AgreesWithTheReference) {
  Judge judge;
  for (std::uint64_t seed = 1; seed <= 120 && !HasFailure(); seed += kThin) {
    const Options o = few_queries(seed);
    ASSERT_TRUE(is_decoding(make_inputs(o).args));
    judge.check(o, seed % 2 == 0 ? thread_pool(2) : serial());
  }
}

TEST_P(Decode, AgreesOnEveryTarget) {
  for_each_target([&] {
    Judge judge;
    for (std::uint64_t seed = 200; seed < 224 && !HasFailure(); seed += kThin) {
      judge.check(few_queries(seed), serial());
    }
  });
}

TEST_P(Decode, DoesNotDependOnThreads) {
  for (const std::uint64_t seed : {2, 4, 14}) {
    Options o = few_queries(seed);
    o.key_length += 2000;
    const Inputs<float> in = make_inputs(o);
    const Forward one = forward(in, o, serial());
    for (const int threads : {2, 3, 100}) {
      Parallel real = thread_pool(2);
      real.threads = threads;
      EXPECT_EQ(one, forward(in, o, real));
      EXPECT_EQ(one, forward(in, o, {threads, [](std::int64_t count, const auto& task) {
                                       for (std::int64_t i = count; i-- > 0;) task(i);
                                     }}));
    }
  }
}

/// A cache of BFloat16 gives what its values in float give, rounded.
TEST_P(Decode, BFloat16) {
  for (std::uint64_t seed = 1; seed <= 40; seed += kThin) {
    const Options o = few_queries(seed);
    Inputs<float> in = make_inputs(o);
    AttentionArgs<BFloat16> args;
    static_cast<AttentionProblem<float>&>(args) = in.args;
    const auto rounded = [](Tensor<float>& tensor, std::vector<BFloat16>& copy) {
      View4<const BFloat16> view;
      std::int64_t step = 1;
      for (int d = 3; d >= 0; --d) {
        view.stride[d] = step;
        step *= tensor.sizes()[d];
      }
      tensor.each([&](float& x) {
        copy.emplace_back(x);
        x = static_cast<float>(copy.back());
      });
      view.data = copy.data();
      return view;
    };
    std::vector<BFloat16> query, key, value;
    args.query = rounded(in.query, query);
    args.key = rounded(in.key, key);
    args.value = rounded(in.value, value);
    in.connect(o);

    Results<float> expected(o);
    decode(in.args, expected.out.view(), expected.lse.data(), serial());
    const std::int64_t rows = o.batch * o.query_heads * o.query_length;
    std::vector<BFloat16> out(static_cast<std::size_t>(rows * o.v_dim), BFloat16(kNan));
    std::vector<float> lse(static_cast<std::size_t>(rows), kNan);
    const View4<BFloat16> view{
        out.data(),
        {o.query_heads * o.query_length * o.v_dim, o.query_length * o.v_dim, o.v_dim, 1}};
    decode(args, view, lse.data(), thread_pool(2));
    EXPECT_EQ(lse, expected.lse);
    std::size_t at = 0;
    expected.out.each([&](float x) { EXPECT_EQ(out[at++].bits, BFloat16(x).bits); });
  }
}

/// NaN and infinity in keys that no row may see change nothing, whatever hides them.
TEST_P(Decode, PoisonInHiddenKeys) {
  for (int hider = 0; hider < 3; ++hider) {
    SCOPED_TRACE(hider);
    Options o;
    o.score = GetParam();
    o.batch = 2;
    o.query_heads = 4;
    o.kv_heads = 2;
    o.query_length = 3;
    o.key_length = 1100;
    o.key_lengths = hider == 0;
    o.mask = hider == 1;
    o.bias = hider == 2;
    Inputs<float> clean = make_inputs(o);
    clean.key_lengths = {700, 1};
    const std::vector<std::int64_t> hidden = hider == 0
                                                 ? std::vector<std::int64_t>{700, 701, 1099}
                                                 : std::vector<std::int64_t>{0, 511, 512, 1099};
    hide_keys(clean, o, hidden);
    Inputs<float> poisoned = clean;
    poison_keys(poisoned, o, hidden);
    clean.connect(o);
    poisoned.connect(o);
    const Forward result = forward(poisoned, o, serial());
    EXPECT_EQ(forward(clean, o, serial()), result);
    for (const double x : result.out) EXPECT_FALSE(std::isnan(x));
  }
}

TEST_P(Decode, NanInAVisibleKeyGivesNan) {
  Options o;
  o.score = GetParam();
  o.batch = 2;
  o.key_length = 700;
  for (const bool in_value : {false, true}) {
    for (const std::int64_t j : {0, 3, 600}) {
      Inputs<float> in = make_inputs(o);
      *(in_value ? in.value : in.key).view().at(0, 0, j, 2) = kNan;
      in.connect(o);
      const Forward result = forward(in, o, serial());
      EXPECT_TRUE(std::isnan(result.out[2]));
      EXPECT_EQ(std::isnan(result.lse[0]), !in_value);
      EXPECT_FALSE(std::isnan(result.out[static_cast<std::size_t>(o.v_dim + 2)]));
    }
  }
}

std::vector<std::string_view> score_names() {
  std::vector<std::string_view> names;
  for (const ScoreInfo& score : phi_scores()) names.push_back(score.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Scores, Decode, ::testing::ValuesIn(score_names()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ssa::test
