// A score with more parameters than any of the list: the fused kernels take it as it is. Compiled
// for the baseline instruction set alone.
#include <gtest/gtest.h>

#include "kernels/attention_backward-inl.h"
#include "kernels/attention_forward-inl.h"
#include "kernels/problem.h"

HWY_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

/// SSA times a third parameter, a: with a = 1 it is SSA, and ∂φ/∂a = φ = n·∂φ/∂n.
struct ScaledSsa {
  static constexpr std::string_view kName = "scaled-ssa";
  static constexpr std::array<ParamInfo, 3> kParams{
      {Ssa::kParams[0], Ssa::kParams[1], {"a", 1.0, 0.0, true, "factor"}}};

  template <class M, class V>
  static HWY_INLINE V phi2(const M& m, const V& s, const V* p) {
    return m.mul(p[2], Ssa::phi2(m, s, p));
  }
  template <class M, class V>
  static HWY_INLINE V dphi_ds(const M& m, const V& s, const V* p) {
    return m.mul(p[2], Ssa::dphi_ds(m, s, p));
  }
  template <int kParam, class M, class V>
  static HWY_INLINE V dphi_dparam(const M& m, const V& s, const V* p) {
    if constexpr (kParam < 2) {
      return m.mul(p[2], Ssa::template dphi_dparam<kParam>(m, s, p));
    } else {
      return m.mul(m.constant(kLn2), Ssa::phi2(m, s, p));
    }
  }
};

void scaled_forward(const AttentionArgs<float>& args, const ForwardOutputs<float>& outputs,
                    const ForwardTask& task) {
  Forward<ScaledSsa, float>(args, outputs, task).run();
}

void scaled_backward(const BackwardProblem<float>& problem, const BackwardTask& task) {
  run_backward_task<ScaledSsa>(problem, task);
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
HWY_AFTER_NAMESPACE();

namespace ssa::test {
namespace {

void expect_close(const Tensor<float>& ours, const Tensor<float>& theirs, const char* what) {
  const std::vector<double> values = values_of(ours), truths = values_of(theirs);
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error = std::max(error, std::abs(values[i] - truths[i]));
    largest = std::max(largest, std::abs(truths[i]));
  }
  EXPECT_GT(largest, 0.1) << what;
  EXPECT_LE(error, 2e-5 * largest) << what;
}

TEST(Scores, AThirdParameterNeedsNoOtherKernel) {
  Options o = base(37, 53);
  o.score = "ssa";
  o.causal = true;
  Inputs<float> in = make_inputs(o);
  const Results<float> theirs = run_fused(in, o, serial());
  in.params[2].assign(static_cast<std::size_t>(o.query_heads), 1.0f);
  in.connect(o);
  Results<float> ours(o);
  const AttentionArgs<float>& args = in.args;
  for (std::int64_t b = 0; b < o.batch; ++b) {
    for (std::int64_t h = 0; h < o.query_heads; ++h) {
      HWY_NAMESPACE::scaled_forward(args, {.out = ours.out.view(), .lse = ours.lse.data()},
                                    {b, h, 0, o.query_length});
    }
  }
  const std::vector<unsigned char> exact(static_cast<std::size_t>(o.batch * o.query_heads), 0);
  const BackwardProblem<float> problem{args,
                                       std::as_const(ours.out).view(),
                                       ours.lse.data(),
                                       std::as_const(in.d_out).view(),
                                       nullptr,
                                       nullptr,
                                       nullptr,
                                       exact.data(),
                                       ours.gradients};
  const std::int64_t group = o.query_heads / o.kv_heads;
  std::vector<std::array<double, kMaxScoreParams>> sums(static_cast<std::size_t>(o.query_heads));
  for (std::int64_t b = 0; b < o.batch; ++b) {
    for (std::int64_t kv = 0; kv < o.kv_heads; ++kv) {
      std::vector<BackwardSums> heads(static_cast<std::size_t>(group));
      for (std::int64_t g = 0; g < group; ++g) heads[g].params = &sums[kv * group + g];
      HWY_NAMESPACE::scaled_backward(problem, {b, kv, 0, o.key_length, heads.data()});
    }
  }
  expect_close(ours.out, theirs.out, "out");
  expect_close(ours.d_query, theirs.d_query, "d_query");
  expect_close(ours.d_key, theirs.d_key, "d_key");
  expect_close(ours.d_value, theirs.d_value, "d_value");
  for (std::size_t h = 0; h < sums.size(); ++h) {
    const double n = in.params[0][h], d_n = theirs.d_params[0][h], d_b = theirs.d_params[1][h];
    EXPECT_NEAR(sums[h][0], d_n, 1e-4 * std::max(1.0, std::abs(d_n)));
    EXPECT_NEAR(sums[h][1], d_b, 1e-4 * std::max(1.0, std::abs(d_b)));
    EXPECT_NEAR(sums[h][2], n * d_n, 1e-4 * std::max(1.0, std::abs(n * d_n)));
  }
}

}  // namespace
}  // namespace ssa::test
