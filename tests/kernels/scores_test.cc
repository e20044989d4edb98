// The scoring functions themselves: golden values, derivatives, monotony, the list.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/judge.h"

namespace ssa::test {
namespace {

namespace target = HWY_NAMESPACE;

constexpr ScalarMath<double> kMath;

/// Calls f(Score{}) for every score.
template <class F>
void each_score(F&& f) {
  target::for_each_score(target::ScoreList{}, [&](auto score) {
    SCOPED_TRACE(std::string(decltype(score)::kName));
    f(score);
  });
}

template <class Score>
double phi(double s, const std::array<double, kMaxScoreParams>& p) {
  return Score::phi2(kMath, s, p.data()) / target::kLog2E;
}

template <class Score, std::size_t... kParam>
std::array<double, kMaxScoreParams> param_derivatives(std::index_sequence<kParam...>,
                                                      [[maybe_unused]] double s,
                                                      [[maybe_unused]] const double* p) {
  return {Score::template dphi_dparam<int(kParam)>(kMath, s, p)...};
}

template <class Score>
std::array<double, kMaxScoreParams> param_derivatives(
    double s, const std::array<double, kMaxScoreParams>& p) {
  return param_derivatives<Score>(std::make_index_sequence<Score::kParams.size()>(), s, p.data());
}

/// The golden numbers are given to 12 digits.
void expect_golden(double value, double golden) {
  EXPECT_NEAR(value, golden, 5e-12 * std::abs(golden));
}

TEST(Scores, GoldenPoints) {
  each_score([](auto score) {
    using Score = decltype(score);
    for (const GoldenPoint& point : Score::kGolden) {
      expect_golden(phi<Score>(point.s, point.params), point.phi);
      expect_golden(Score::dphi_ds(kMath, point.s, point.params.data()), point.dphi_ds);
      const auto derivatives = param_derivatives<Score>(point.s, point.params);
      for (std::size_t k = 0; k < Score::kParams.size(); ++k) {
        expect_golden(derivatives[k], point.dphi_dparam[k]);
      }
    }
  });
}

TEST(Scores, DerivativesMatchDifferences) {
  each_score([](auto score) {
    using Score = decltype(score);
    for (const double s : {-30.0, -2.0, -0.3, 0.2, 1.5, 40.0}) {
      std::array<double, kMaxScoreParams> p{};
      for (std::size_t k = 0; k < kMaxScoreParams; ++k) {  // where keys are counted, ln N too
        p[k] = k < Score::kParams.size() ? Score::kParams[k].initial * 1.3 : 2.0;
      }
      // Central differences of step h: error h²·φ'''/6 + ε·φ/h, about 1e-9 here.
      constexpr double kStep = 1e-5;
      const double slope = (phi<Score>(s + kStep, p) - phi<Score>(s - kStep, p)) / (2 * kStep);
      EXPECT_NEAR(Score::dphi_ds(kMath, s, p.data()), slope, 1e-7 * std::max(1.0, std::abs(slope)));
      const auto derivatives = param_derivatives<Score>(s, p);
      for (std::size_t k = 0; k < Score::kParams.size(); ++k) {
        auto more = p, less = p;
        more[k] += kStep;
        less[k] -= kStep;
        const double difference = (phi<Score>(s, more) - phi<Score>(s, less)) / (2 * kStep);
        EXPECT_NEAR(derivatives[k], difference, 1e-7 * std::max(1.0, std::abs(difference)));
      }
    }
  });
}

/// The kernels rely on it: the largest score has the largest weight, and a bound of |s| bounds φ.
TEST(Scores, PhiDoesNotDecrease) {
  each_score([](auto score) {
    using Score = decltype(score);
    std::array<double, kMaxScoreParams> p{};
    for (std::size_t k = 0; k < kMaxScoreParams; ++k) {  // where keys are counted, ln N too
      p[k] = k < Score::kParams.size() ? Score::kParams[k].initial : 2.0;
    }
    double last = -std::numeric_limits<double>::infinity();
    for (double s = -300; s <= 300; s += 0.125) {
      const double value = phi<Score>(s, p);
      EXPECT_GE(value, last) << "at " << s;
      last = value;
    }
  });
}

TEST(Scores, ListAndLookUp) {
  ASSERT_FALSE(phi_scores().empty());
  for (const ScoreInfo& score : scores()) {
    EXPECT_EQ(find_score(score.name).formula, score.formula);
    EXPECT_EQ(score.golden.empty(), score.family != ScoreFamily::kPhi);
    EXPECT_FALSE(score.help.empty());
    for (const ParamInfo& param : score.params) {
      EXPECT_GT(param.initial, param.module_lower);
      EXPECT_TRUE(param.allows(param.initial));
      EXPECT_FALSE(param.help.empty());
    }
  }
  try {
    find_score("sofmax");
    FAIL() << "no error";
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("sofmax"), std::string::npos);
    for (const ScoreInfo& score : scores()) {
      EXPECT_NE(text.find(std::string(score.name)), std::string::npos) << text;
    }
  }
}

/// A row of scores and what the reference makes of it; keys and values have dimension 1.
struct RowOfScores {
  std::vector<double> scores;
  double n, b;
  std::vector<double> weights;
  double lse;
};

TEST(Reference, RowsWorkedOutByHand) {
  // 30-digit arithmetic; the last row is the paper's "one huge value".
  const RowOfScores rows[] = {
      {{1, -1, -2, 3, 0},
       1.5,
       0.8,
       {0.2336254658, 0.04005923625, 0.02307551491, 0.6064985937, 0.0967411894},
       2.3357160168201},
      {{1, -1, -2, 3, 0},
       1,
       1,
       {0.2553191489, 0.06382978723, 0.04255319149, 0.5106382979, 0.1276595745},
       2.058388132482},
      {{1, -1, -2, 1000},
       1.5,
       0.8,
       {1.065126576e-4, 1.826348725e-5, 1.052040457e-5, 0.9998647035},
       NAN},
  };
  for (const RowOfScores& row : rows) {
    const auto count = static_cast<std::int64_t>(row.scores.size());
    const double one = 1;
    for (std::int64_t j = 0; j < count; ++j) {
      std::vector<double> value(row.scores.size(), 0.0);
      value[j] = 1;  // picks weight j
      double out = NAN, lse = NAN;
      AttentionArgs<double> args;
      args.batch = args.query_heads = args.kv_heads = args.query_length = args.qk_dim = args.v_dim =
          1;
      args.key_length = count;
      args.query = {&one, {1, 1, 1, 1}};
      args.key = {row.scores.data(), {count, count, 1, 1}};
      args.value = {value.data(), {count, count, 1, 1}};
      args.params = {{{&row.n, 0}, {&row.b, 0}}};
      reference_forward(args, {&out, {1, 1, 1, 1}}, &lse);
      EXPECT_NEAR(out, row.weights[j], 1e-9 * row.weights[j]);
      if (!std::isnan(row.lse)) {
        EXPECT_NEAR(lse, row.lse, 1e-12);
      }
    }
  }
}

TEST(Reference, SoftmaxIsTheLimitOfSsa) {
  Options o;
  o.score = "ssa";
  o.query_length = o.key_length = 20;
  o.params = {1e6, 1e-6};
  const Inputs<double> ssa = inputs_as<double>(make_inputs(o), o);
  Inputs<double> limit = ssa;
  // The parameters were rounded to float; their product is what must be 1.
  limit.params[1][0] = 1 / limit.params[0][0];
  limit.connect(o);
  Options softmax = o;
  softmax.score = "softmax";
  Inputs<double> plain = ssa;
  plain.connect(softmax);
  const Results<double> a = run_plain(limit, o), b = run_plain(plain, softmax);
  EXPECT_LT(error_of(a.out, b.out).error, 1e-4);  // (1 + s/m)^m = e^s·(1 − s²/2m + …)
  EXPECT_LT(error_of(a.d_query, b.d_query).error, 1e-4);
}

/// The reference's own backward pass, against differences of its forward pass.
TEST(Reference, GradientsMatchDifferences) {
  for (const ScoreInfo& score : phi_scores()) {
    SCOPED_TRACE(std::string(score.name));
    Options o;
    o.score = score.name;
    o.query_heads = 2;
    o.query_length = 4;
    o.key_length = 5;
    o.qk_dim = 3;
    o.v_dim = 2;
    o.bias = o.d_lse = o.causal = o.mask = true;
    Inputs<double> in = inputs_as<double>(make_inputs(o), o);
    Results<double> results = run_plain(in, o);
    const auto loss = [&] {
      Results<double> r(o);
      reference_forward(in.args, r.out.view(), r.lse.data());
      double sum = 0;
      const std::vector<double> out = values_of(r.out), weights = values_of(in.d_out);
      for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * weights[i];
      for (std::size_t i = 0; i < r.lse.size(); ++i) {
        if (std::isfinite(r.lse[i])) sum += r.lse[i] * in.d_lse[i];
      }
      return sum;
    };
    const auto compare = [&](const char* name, double& x, double gradient) {
      constexpr double kStep = 1e-5;
      const double kept = x;
      x = kept + kStep;
      const double more = loss();
      x = kept - kStep;
      const double less = loss();
      x = kept;
      EXPECT_NEAR(gradient, (more - less) / (2 * kStep), 1e-7) << name;
    };
    const auto compare_all = [&](const char* name, Tensor<double>& x, Tensor<double>& gradient) {
      std::vector<double> gradients = values_of(gradient);
      std::size_t i = 0;
      x.each([&](double& element) { compare(name, element, gradients[i++]); });
    };
    compare_all("query", in.query, results.d_query);
    compare_all("key", in.key, results.d_key);
    compare_all("value", in.value, results.d_value);
    compare_all("bias", in.bias, results.d_bias);
    for (std::size_t k = 0; k < score.params.size(); ++k) {
      for (std::size_t h = 0; h < in.params[k].size(); ++h) {
        compare("param", in.params[k][h], results.d_params[k][h]);
      }
    }
  }
}

}  // namespace
}  // namespace ssa::test
