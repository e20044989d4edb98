#include "ssa/merge.h"

#include <gtest/gtest.h>

#include "kernels/problem.h"

namespace ssa::test {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

/// The same problem with keys [first, last) only.
template <class T>
AttentionArgs<T> with_keys(AttentionArgs<T> args, std::int64_t first, std::int64_t last) {
  args.key.data = args.key.at(0, 0, first);
  args.value.data = args.value.at(0, 0, first);
  args.key_length = last - first;
  return args;
}

template <class T>
void forward(const AttentionArgs<T>& args, const View4<T>& out, T* lse) {
  if constexpr (std::is_same_v<T, float>) {
    attention_forward(args, out, lse, serial());
  } else {
    reference_forward(args, out, lse);
  }
}

/// Results over keys [0, cuts[0]), [cuts[0], cuts[1]), …, merged.
template <class T>
void merge_pieces(const Inputs<T>& in, const Options& o, std::vector<std::int64_t> cuts,
                  Results<T>& merged) {
  std::vector<Results<T>> results;
  std::vector<AttentionPart<T>> parts;
  std::int64_t first = 0;
  cuts.push_back(o.key_length);
  for (const std::int64_t last : cuts) {
    AttentionArgs<T> args = with_keys(in.args, first, last);
    std::vector<T> sigma;
    if (o.score == "ssmax") {  // φ = σ·log(N)·s with the N of all keys
      for (std::int64_t h = 0; h < o.query_heads; ++h) {
        sigma.push_back(in.params[0][h] * std::log(static_cast<T>(o.key_length)) /
                        std::log(static_cast<T>(last - first)));
      }
      args.params[0] = {sigma.data(), 1};
    }
    results.emplace_back(o);
    forward(args, results.back().out.view(), results.back().lse.data());
    first = last;
  }
  for (const Results<T>& r : results) parts.push_back({r.out.view(), r.lse.data()});
  merge<T>(in.args, parts, merged.out.view(), merged.lse.data(), thread_pool(2));
}

Options problem(std::string_view score, std::int64_t keys) {
  Options o;
  o.score = score;
  o.batch = 2;
  o.query_heads = 4;
  o.kv_heads = 2;
  o.query_length = 5;
  o.key_length = keys;
  o.v_dim = 11;
  return o;
}

TEST(Merge, PiecesGiveTheWhole) {
  for (const ScoreInfo& score : phi_scores()) {
    for (const std::vector<std::int64_t>& cuts :
         {std::vector<std::int64_t>{}, {2}, {20}, {38}, {7, 9, 25}}) {
      for (const double magnitude : {1.0, 40.0}) {
        SCOPED_TRACE(::testing::Message()
                     << score.name << ", " << cuts.size() << " cuts, magnitude " << magnitude);
        Options o = problem(score.name, 40);
        o.magnitude = magnitude;
        const Inputs<float> in = make_inputs(o);
        const Inputs<double> exact_in = inputs_as<double>(in, o);
        const Results<double> exact = run_plain(exact_in, o);
        const Results<float> plain = run_plain(in, o);

        // lse is stored, and its rounding is a relative error of the weights. Double has 29 bits
        // more than float: so have the results.
        const auto check = [&](const auto& merged, double unit) {
          const double epsilon = unit * std::numeric_limits<float>::epsilon();
          const Error lse = error_of(merged.lse, exact.lse), out = error_of(merged.out, exact.out);
          EXPECT_LE(lse.error,
                    2 * unit * error_of(plain.lse, exact.lse).error + 4 * epsilon * lse.truth);
          EXPECT_LE(out.error, 2 * unit * error_of(plain.out, exact.out).error +
                                   epsilon * std::max(4.0, lse.truth) * out.truth);
        };
        Results<float> merged(o);
        merge_pieces(in, o, cuts, merged);
        check(merged, 1);
        Results<double> precise(o);
        merge_pieces(exact_in, o, cuts, precise);
        check(precise, std::ldexp(1, -29));
      }
    }
  }
}

/// Rows that see nothing in some parts, or in all, and what such parts hold.
TEST(Merge, PartsThatSawNothing) {
  for (const ScoreInfo& score : phi_scores()) {
    Options o = problem(score.name, 40);
    Inputs<float> in = make_inputs(o);
    Results<float> whole(o), nothing(o), merged(o);  // filled with NaN
    attention_forward(in.args, whole.out.view(), whole.lse.data(), serial());
    std::fill(nothing.lse.begin(), nothing.lse.end(), static_cast<float>(kMinusInf));
    whole.lse[3] = static_cast<float>(kMinusInf);  // now nobody sees anything in that row
    const std::vector<AttentionPart<float>> parts{
        {std::as_const(nothing.out).view(), nothing.lse.data()},
        {std::as_const(whole.out).view(), whole.lse.data()},
        {std::as_const(nothing.out).view(), nothing.lse.data()}};
    merge<float>(in.args, parts, merged.out.view(), merged.lse.data(), serial());
    EXPECT_EQ(merged.lse, whole.lse);
    for (std::int64_t d = 0; d < o.v_dim; ++d) *whole.out.view().at(0, 0, 3, d) = 0;
    EXPECT_EQ(values_of(merged.out), values_of(whole.out)) << score.name;
  }
}

TEST(Merge, NanStaysNan) {
  Options o = problem("softmax", 8);
  Inputs<float> in = make_inputs(o);
  Results<float> a(o), b(o), merged(o);
  attention_forward(in.args, a.out.view(), a.lse.data(), serial());
  b = a;
  b.lse[2] = std::numeric_limits<float>::quiet_NaN();
  *b.out.view().at(0, 0, 1, 4) = std::numeric_limits<float>::quiet_NaN();
  b.lse[1] = -300;  // of no weight beside a's, and yet it was seen
  const std::vector<AttentionPart<float>> parts{{std::as_const(a.out).view(), a.lse.data()},
                                                {std::as_const(b.out).view(), b.lse.data()}};
  merge<float>(in.args, parts, merged.out.view(), merged.lse.data(), serial());
  EXPECT_TRUE(std::isnan(merged.lse[2]));
  EXPECT_TRUE(std::isnan(*merged.out.view().at(0, 0, 2, 0)));
  EXPECT_TRUE(std::isnan(*merged.out.view().at(0, 0, 1, 4)));
  EXPECT_FALSE(std::isnan(*merged.out.view().at(0, 0, 1, 3)));
}

TEST(Merge, BFloat16RoundsTheSumOnce) {
  Options o = problem("sink", 8);
  Inputs<float> in = make_inputs(o);
  in.args.query_heads = in.args.kv_heads = in.args.batch = in.args.query_length = 1;
  in.args.v_dim = 2;
  const std::vector<float> lse{0.3f, -1.2f};
  std::vector<BFloat16> out{BFloat16(0.7f), BFloat16(-2.0f), BFloat16(3.0f), BFloat16(0.1f)};
  std::vector<BFloat16> merged(2);
  const auto view = [](auto* data) {
    return View4<std::remove_pointer_t<decltype(data)>>{data, {2, 2, 2, 1}};
  };
  const BFloat16* data = out.data();
  const std::vector<AttentionPart<BFloat16>> parts{{view(data), &lse[0]},
                                                   {view(data + 2), &lse[1]}};
  float merged_lse;
  merge<BFloat16>(in.args, parts, view(merged.data()), &merged_lse, serial());
  const double z = in.params[0][0], a = std::exp(lse[0]), b = std::exp(lse[1]), e = std::exp(z);
  EXPECT_NEAR(merged_lse, std::log(a + b), 1e-6);
  for (int d = 0; d < 2; ++d) {
    const double exact =
        ((a + e) * static_cast<float>(out[d]) + (b + e) * static_cast<float>(out[2 + d])) /
        (a + b + e);
    EXPECT_EQ(static_cast<float>(merged[d]),
              static_cast<float>(BFloat16(static_cast<float>(exact))));
  }
}

TEST(Merge, Refusals) {
  Options o = problem("sink", 8);
  Inputs<float> in = make_inputs(o);
  Results<float> r(o);
  EXPECT_THROW(merge<float>(in.args, {}, r.out.view(), r.lse.data(), serial()),
               std::invalid_argument);
  const std::vector<AttentionPart<float>> parts{{std::as_const(r.out).view(), r.lse.data()}};
  EXPECT_THROW(merge<float>(in.args, parts, View4<float>{}, r.lse.data(), serial()),
               std::invalid_argument);
  EXPECT_THROW(merge<float>(in.args, parts, r.out.view(), nullptr, serial()),
               std::invalid_argument);
  in.args.score = "sparsemax";
  EXPECT_THROW(merge<float>(in.args, parts, r.out.view(), r.lse.data(), serial()),
               std::invalid_argument);
  in.args.score = "sink";
  in.args.params[0].data = nullptr;
  EXPECT_THROW(merge<float>(in.args, parts, r.out.view(), r.lse.data(), serial()),
               std::invalid_argument);
}

}  // namespace
}  // namespace ssa::test
