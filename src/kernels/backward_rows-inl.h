// The backward pass row by row: what a query head's rows are read as, and how a row's scores become
// weights and their gradients.

#if defined(SSA_BACKWARD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_BACKWARD_ROWS_INL_H_
#undef SSA_BACKWARD_ROWS_INL_H_
#else
#define SSA_BACKWARD_ROWS_INL_H_
#endif

#include <cmath>
#include <utility>

#include "kernels/backward_lanes-inl.h"
#include "kernels/backward_plan-inl.h"
#include "kernels/pairs-inl.h"

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

/// D of every row, in the tile's order of operations, a vector of rows at a time: where one
/// weight is 1 and O is that key's value, dP − D must be zero, as in a plain softmax, not nearly
/// zero times a score of 1e6.
template <class Score, class T>
void find_delta(TaskPlan<Score, T>& plan, const Matrix<T>& d_out, const Matrix<T>& out) {
  const FloatTag d;
  const Index panel = plan.v_depth * kPanel;
  float *left = plan.d_out_panel, *right = plan.d_out_panel + panel;
  for (Index i = 0; i < plan.rows; i += kPanel) {
    const Index count = std::min(kPanel, plan.rows - i);
    const Matrix<T> d_out_rows{d_out.row(i), d_out.row_stride, d_out.stride};
    const Matrix<T> out_rows{out.row(i), out.row_stride, out.stride};
    pack_panels(d_out_rows, count, plan.args.v_dim, left);
    pack_panels(out_rows, count, plan.args.v_dim, right);
    for (Index r = 0; r < count; r += kLanes) {
      Floats sum = hn::Zero(d);
      for (Index c = 0; c < panel; c += kPanel) {
        sum = multiply_add<T>(hn::LoadU(d, left + c + r), hn::LoadU(d, right + c + r), sum);
      }
      hn::StoreU(sum, d, plan.delta + i + r);
    }
  }
}

/// dL in units of the row's weights. lse is without the sink: of the weights, shares of the whole
/// normaliser, it is the logarithm of the sum over keys only.
template <class Score, class T>
float d_lse_of(const TaskPlan<Score, T>& plan, const BackwardHead<Score>& head, Index i) {
  if (plan.problem.d_lse == nullptr) return 0.0f;
  const Index at = plan.args.lse_offset(plan.task.batch, head.head) + i;
  if constexpr (kHasSink<Score>) return plan.problem.d_lse[at] / plan.kept[i];
  return plan.problem.d_lse[at];
}

/// The sink of row i is a key with value 0, and so has dφ = −p·D. It is in no task's keys: the
/// one with the first key adds it.
template <class Score, class T>
void add_sink(TaskPlan<Score, T>& plan, const BackwardHead<Score>& head, Index i, double d_phi,
              double weight) {
  if constexpr (!Score::kParams.empty()) {
    plan.row_sums[i] += static_cast<float>(d_phi);
    [&]<std::size_t... kParam>(std::index_sequence<kParam...>) {
      (
          [&] {
            const double derivative = hn::GetLane(
                Score::template dsink_dparam<int(kParam)>(head.score.math, head.score.params));
            (*head.sums.params)[kParam] += d_phi * derivative;
            plan.row_sums[(1 + kParam) * plan.rows + i] += static_cast<float>(weight * derivative);
          }(),
          ...);
    }
    (std::make_index_sequence<Score::kParams.size()>{});
  }
}

/// Scaled queries, dO, lse in base 2 and D − dL of all rows. A row that sees no key is read as
/// zero, so that nothing it holds reaches the key gradients as 0 · NaN.
template <class Score, class T>
void load_rows(TaskPlan<Score, T>& plan, const BackwardHead<Score>& head) {
  const Matrix<T> query = matrix_of(plan.args.query, plan.task.batch, head.head);
  const Matrix<T> d_out = matrix_of(plan.problem.d_out, plan.task.batch, head.head);
  const Index at = plan.args.lse_offset(plan.task.batch, head.head);
  const bool exact = plan.problem.exact[plan.task.batch * plan.args.query_heads + head.head] != 0;
  copy_rows(query, plan.rows, plan.args.qk_dim, plan.args.scale, plan.query, plan.qk_row);
  find_delta(plan, d_out, matrix_of(plan.problem.out, plan.task.batch, head.head));
  bool copy = !d_out.is_packed(plan.args.v_dim, plan.v_width);
  for (Index i = 0; i < plan.rows; ++i) {
    if constexpr (kCountsKeys<Score>) plan.keys_seen[i] = head.visibility.count(i);
    const float lse = plan.problem.lse[at + i];
    if (lse == kMinusInfinity) {
      plan.lse2[i] = plan.lse2_low[i] = plan.delta[i] = 0.0f;
      if constexpr (kHasSink<Score>) plan.kept[i] = 1.0f, plan.sink_has_all[i] = 0;
      copy = true;
      continue;
    }
    // As a sum, whose first part is the largest φ2: of a score of 1e30 their sum keeps no digit
    // of the second.
    const double lse2 = kLog2E * lse;
    float high = static_cast<float>(lse2);
    double low = lse2 - high;
    if (exact) high = plan.problem.lse2_high[at + i], low = plan.problem.lse2_low[at + i];
    if constexpr (kHasSink<Score>) {
      // Weights are shares of the whole normaliser, the sink's among them.
      const double sink2 = head.score.sink2(), above = sink2 - high - low;
      const double more = std::log2(1 + std::exp2(-std::abs(above)));
      const double weight = std::exp2(std::min(above, 0.0) - more);
      if (plan.task.first == 0) add_sink(plan, head, i, -weight * plan.delta[i], weight);
      // Beyond 2^−126 the keys' weights are below floats. What is left is the gradient of lse,
      // which is made of their shares among themselves: it is divided by `kept`, which leaves it
      // 2^27 only above 2^−100.
      plan.sink_has_all[i] = above > (plan.problem.d_lse == nullptr ? 126 : 100);
      if (plan.sink_has_all[i]) {
        plan.kept[i] = 1.0f;
        plan.delta[i] *= 0.0f;  // NaN stays NaN
        copy = true;
      } else {
        plan.kept[i] = static_cast<float>(std::exp2(-std::max(above, 0.0) - more));
        const double first = above > 0 ? sink2 : high;
        const double second = (above > 0 ? 0 : low) + more;
        high = static_cast<float>(first + second);
        low = first - high + second;
      }
    }
    plan.lse2[i] = high;
    plan.lse2_low[i] = static_cast<float>(low);
    plan.delta[i] -= d_lse_of(plan, head, i);
  }
  plan.d_out = plan.d_out_copy;
  if constexpr (!kPairs<T>) plan.d_out = copy ? plan.d_out_copy : d_out.data;
  if (!copy) return;
  copy_rows(d_out, plan.rows, plan.args.v_dim, 1.0f, plan.d_out_copy, plan.v_row);
  if constexpr (kPairs<T>) {
    stack_rows(query, plan.rows, plan.args.qk_dim, plan.query_stack, plan.qk_width);
    stack_rows(d_out, plan.rows, plan.args.v_dim, plan.d_out_stack, plan.v_width);
  }
  for (Index i = 0; i < plan.rows; ++i) {
    const bool sees_nothing = plan.problem.lse[at + i] == kMinusInfinity;
    if (!sees_nothing && !(kHasSink<Score> && plan.sink_has_all[i])) continue;
    std::fill_n(plan.d_out_copy + i * plan.v_row, plan.v_row, 0.0f);
    if constexpr (kPairs<T>) erase_row<T>(plan.d_out_stack, i, plan.v_width);
    if (!sees_nothing) continue;
    std::fill_n(plan.query + i * plan.qk_row, plan.qk_row, 0.0f);
    if constexpr (kPairs<T>) erase_row<T>(plan.query_stack, i, plan.qk_width);
  }
}

inline void multiply_by(const float* factors, Index padded, float* values) {
  const FloatTag d;
  for (Index j = 0; j < padded; j += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, factors + j), hn::LoadU(d, values + j)), d, values + j);
  }
}

/// D − dL of a row whose few visible keys all lie here, as Σ p·dP / Σ p of these very numbers.
/// One weight is often near 1 there: dP − D cancels, and D = dO·O would leave the rounding of its
/// dot product, six times the error of a plain softmax's dQ at dimension 96.
template <Mode kMode, class Score, class T>
float delta_of_few(const TaskPlan<Score, T>& plan, const BackwardHead<Score>& head,
                   const HeadScore<Score>& score_of, Index i, Index limit, const float* w,
                   const float* ds) {
  const FloatTag d;
  Floats weighted = hn::Zero(d), total = hn::Zero(d);
  for (Index j = 0; j < limit; j += kLanes) {
    Floats weight = hn::LoadU(d, w + j), unused = hn::Zero(d);
    const Floats d_weight = hn::LoadU(d, ds + j);
    const FloatMask hidden = kMode == Mode::kBounded
                                 ? hn::Not(hn::FirstN(d, static_cast<std::size_t>(limit - j)))
                                 : hn::Eq(weight, set(kMinusInfinity));
    typename BackwardLanes<Score, T>::Sums sums;
    BackwardLanes<Score, T>::template run<kMode, true>(score_of, hidden, set(plan.lse2[i]),
                                                       set(plan.lse2_low[i]), hn::Zero(d), weight,
                                                       unused, sums);
    weighted = hn::Add(weighted, hn::IfThenZeroElse(hidden, hn::Mul(weight, d_weight)));
    total = hn::Add(total, weight);
  }
  // The total is what the row's keys keep of the normaliser, 1 without a sink, but for rounding.
  const float sum = hn::GetLane(hn::SumOfLanes(d, total));
  float delta = hn::GetLane(hn::SumOfLanes(d, weighted)) / sum;
  if constexpr (kHasSink<Score>) {
    delta = sum == 0 ? 0.0f : delta * plan.kept[i];  // 0: all below floats
  }
  return delta - d_lse_of(plan, head, i);
}

/// w: scores become weights; ds: dP becomes dS; both zero where hidden, up to a whole vector.
template <Mode kMode, class Score, class T>
HWY_INLINE void backward_row(TaskPlan<Score, T>& plan, const BackwardHead<Score>& head, Index i,
                             Index limit, bool few, float* w, float* ds, Floats* param_sums) {
  const FloatTag d;
  HeadScore<Score> score_of = head.score;
  if constexpr (kCountsKeys<Score>) score_of.see(plan.keys_seen[i]);
  const Floats lse2 = set(plan.lse2[i]), lse2_low = set(plan.lse2_low[i]);
  float row_delta = plan.delta[i];
  if (few) {
    row_delta = delta_of_few<kMode>(plan, head, score_of, i, limit, w, ds);
    // The sink has been given another D.
    if constexpr (kHasSink<Score>) {
      add_sink(plan, head, i, (plan.kept[i] - 1) * (row_delta - plan.delta[i]), 0);
    }
  }
  const Floats delta = set(row_delta);
  typename BackwardLanes<Score, T>::Sums sums;
  for (Index j = 0; j < limit; j += kLanes) {
    Floats score = hn::LoadU(d, w + j), gradient = hn::LoadU(d, ds + j);
    if constexpr (kMode == Mode::kBounded) {
      if (j + kLanes <= limit) {
        BackwardLanes<Score, T>::template run<kMode, false>(score_of, FloatMask(), lse2, lse2_low,
                                                            delta, score, gradient, sums);
      } else {
        const FloatMask outside = hn::Not(hn::FirstN(d, static_cast<std::size_t>(limit - j)));
        BackwardLanes<Score, T>::template run<kMode, true>(score_of, outside, lse2, lse2_low, delta,
                                                           score, gradient, sums);
      }
    } else {
      const FloatMask hidden = hn::Eq(score, set(kMinusInfinity));
      BackwardLanes<Score, T>::template run<kMode, true>(score_of, hidden, lse2, lse2_low, delta,
                                                         score, gradient, sums);
    }
    hn::StoreU(score, d, w + j);
    hn::StoreU(gradient, d, ds + j);
  }
  for (std::size_t k = 0; k < Score::kParams.size(); ++k) {
    param_sums[k] = hn::Add(param_sums[k], sums.param[k]);
  }
  if constexpr (!Score::kParams.empty()) {
    plan.row_sums[i] += hn::GetLane(hn::SumOfLanes(d, sums.d_phi));
    for (std::size_t k = 0; k < Score::kParams.size(); ++k) {
      plan.row_sums[(1 + k) * plan.rows + i] += hn::GetLane(hn::SumOfLanes(d, sums.weighted[k]));
    }
  }
}

/// ds[0, keys) belongs to query i and keys from `first` on.
template <class Score, class T>
void add_bias_gradient(TaskPlan<Score, T>& plan, BackwardHead<Score>& head, Index i, Index first,
                       Index keys, const float* ds) {
  const FloatTag d;
  if (head.sums.bias != nullptr) {
    double* to = head.sums.bias + i * head.sums.bias_row_stride;
    const Index stride = head.sums.bias_stride;
    for (Index j = 0; j < keys; ++j) to[(first + j) * stride] += ds[j];
    return;
  }
  const View4<float>& bias = plan.problem.gradients.bias;
  if (bias.data == nullptr) return;
  float* to = bias.at(plan.task.batch, head.head, i, first);
  const Index stride = bias.stride[3];
  Index j = 0;
  if (stride == 1) {
    for (; j + kLanes <= keys; j += kLanes) {
      hn::StoreU(hn::Add(hn::LoadU(d, to + j), hn::LoadU(d, ds + j)), d, to + j);
    }
  }
  for (; j < keys; ++j) to[j * stride] += ds[j];
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
SSA_AFTER_NAMESPACE();

#endif  // per-target include guard
