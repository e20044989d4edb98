// The backward pass tile by tile: blocks of keys outside, blocks of queries inside, strips of rows
// within a block. P and dS of a block lie in two buffers that the last three products read, dV and
// dK column by column, so that nothing is transposed. With BFloat16 these buffers hold pairs of
// rows.

#if defined(SSA_BACKWARD_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_BACKWARD_TILES_INL_H_
#undef SSA_BACKWARD_TILES_INL_H_
#else
#define SSA_BACKWARD_TILES_INL_H_
#endif

#include "kernels/backward_rows-inl.h"

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

/// The strip's P and dS into the buffers as pairs of rows; dS of the strip as pairs of keys.
template <class Score, class T>
void narrow_strip(TaskPlan<Score, T>& plan, Index r, Index rows, Index from,
                  Index filled) requires kPairs<T> {
  float *weights = plan.strip_weights + from, *d_scores = plan.strip_d_scores + from;
  if (rows % 2 != 0) {
    std::fill_n(weights + rows * kBuffer, filled, 0.0f);
    std::fill_n(d_scores + rows * kBuffer, filled, 0.0f);
  }
  for (Index row = 0; row < rows; row += 2) {
    const Index at = row * kBuffer, to = (r + row) / 2 * kBuffer + from;
    stack_floats<T>(weights + at, weights + at + kBuffer, filled, plan.weights + to);
    stack_floats<T>(d_scores + at, d_scores + at + kBuffer, filled, plan.d_scores + to);
  }
  for (Index row = 0; row < rows; ++row) narrow_row<T>(d_scores + row * kBuffer, filled);
}

/// A strip of keys that begins in front of column `from` reaches over it.
template <class Score, class T>
void clear_front(TaskPlan<Score, T>& plan, Index r, Index rows, Index from) {
  const Index cleared = std::min<Index>(from, kTileRows - 1);
  for (Index row = 0; row < depth<T>(rows) && cleared > 0; ++row) {
    const Index at = (r / kDepth<T> + row) * kBuffer + from - cleared;
    std::fill_n(plan.weights + at, cleared, 0.0f);
    std::fill_n(plan.d_scores + at, cleared, 0.0f);
  }
}

/// Rows [r, r + rows) × keys [from, keys) of the block: P and dS into the buffers, dQ.
template <Mode kMode, class Score, class T>
void backward_strip(TaskPlan<Score, T>& plan, BackwardHead<Score>& head, Index k0, Index from,
                    Index keys, Index r0, Index r, Index rows, Floats* param_sums) {
  if (keys <= from) return;
  const Index filled = round_up(round_up(keys, kTileRows), kLanes) - from;
  float* weights = (kPairs<T> ? plan.strip_weights : plan.weights + r * kBuffer) + from;
  float* d_scores = (kPairs<T> ? plan.strip_d_scores : plan.d_scores + r * kBuffer) + from;
  k0 += from;
  keys -= from;
  multiply_panels<T>(rows, keys, plan.query + (r0 + r) * plan.qk_row, plan.qk_row, plan.qk_depth,
                     plan.key_panels + k0 * plan.qk_depth, weights, kBuffer, plan.tile_factor());
  multiply_panels<T>(rows, keys, plan.d_out + (r0 + r) * plan.v_row, plan.v_row, plan.v_depth,
                     plan.value_panels + k0 * plan.v_depth, d_scores, kBuffer, 1.0f);
  for (Index row = 0; row < rows; ++row) {
    const Index i = r0 + r + row;
    float* w = weights + row * kBuffer;
    float* ds = d_scores + row * kBuffer;
    const Index start = head.visibility.start(i), all = head.visibility.limit(i) - start;
    const Index limit = std::clamp<Index>(start + all - plan.task.first - k0, 0, keys);
    const Index begin = std::clamp<Index>(start - plan.task.first - k0, 0, limit);
    const Index padded = round_up(limit, kLanes);
    if constexpr (kMode != Mode::kBounded) {
      head.filter.apply(i, plan.task.first + k0, begin, limit, padded, w);
    }
    if (head.dropout.active()) {
      head.dropout.write_factors(i, plan.task.first + k0, padded, plan.factors);
      multiply_by(plan.factors, padded, ds);
    }
    // With one key, p = 1 and dP = D: only dL is left. Said here, as O = V holds but for
    // rounding.
    const bool has_all = limit - begin == all;
    if (!kHasSink<Score> && has_all && all == 1) {
      ds[begin] = plan.delta[i] + d_lse_of(plan, head, i);
    }
    backward_row<kMode>(plan, head, i, limit, has_all && all <= kFewKeys, w, ds, param_sums);
    if (head.dropout.active()) multiply_by(plan.factors, padded, w);
    std::fill(w + padded, w + filled, 0.0f);
    std::fill(ds + padded, ds + filled, 0.0f);
    add_bias_gradient(plan, head, i, plan.task.first + k0, limit, ds);
  }
  if constexpr (kPairs<T>) narrow_strip(plan, r, rows, from, filled);
  clear_front(plan, r, rows, from);
  if (plan.problem.gradients.query.data != nullptr) {
    // Keys in front of the first that the strip sees may be those that no row sees.
    const Index start =
        std::clamp<Index>(head.visibility.start(r0 + r) - plan.task.first - k0, 0, keys);
    const Index lead = start / kDepth<T> * kDepth<T>;
    multiply<T, Storage::kRows>(
        rows, plan.qk_width, d_scores + lead / kDepth<T>, kBuffer, depth<T>(keys - lead),
        plan.key_rows + (k0 + lead) / kDepth<T> * plan.qk_width, plan.qk_width,
        plan.d_query + (r0 + r) * plan.qk_width, plan.qk_width);
  }
}

/// Rows [r0, r0 + rows) × keys [k0, k0 + keys), counted from the task's first key.
template <Mode kMode, class Score, class T>
void backward_block(TaskPlan<Score, T>& plan, BackwardHead<Score>& head, Index k0, Index keys,
                    Index r0, Index rows) {
  const FloatTag d;
  // Terms of the parameter gradients cancel to a thousandth of their sizes: they are added up in
  // levels (row, strip, block, then double), which at length 128 halves the error of one running
  // sum.
  Floats block_sums[kParamSums<Score>], strip_sums[kParamSums<Score>];
  for (Floats& sum : block_sums) sum = hn::Zero(d);
  for (Index r = 0; r < rows; r += kTileRows) {
    const Index strip_rows = std::min<Index>(kTileRows, rows - r);
    const Index strip_limit = head.visibility.limit(r0 + r + strip_rows - 1) - plan.task.first - k0;
    const Index strip_start = head.visibility.start(r0 + r) - plan.task.first - k0;
    for (Floats& sum : strip_sums) sum = hn::Zero(d);
    backward_strip<kMode>(plan, head, k0, std::max<Index>(0, strip_start) / kPanel * kPanel,
                          std::min(keys, strip_limit), r0, r, strip_rows, strip_sums);
    for (std::size_t k = 0; k < Score::kParams.size(); ++k) {
      block_sums[k] = hn::Add(block_sums[k], strip_sums[k]);
    }
  }
  for (std::size_t k = 0; k < Score::kParams.size(); ++k) {
    (*head.sums.params)[k] += hn::GetLane(hn::SumOfLanes(d, block_sums[k]));
  }
  for (Index s = 0; s < keys; s += kTileRows) {
    const Index strip_keys = std::min<Index>(kTileRows, keys - s);
    // Only the rows from the first that sees key s to the last that sees the strip's last key
    // have something for it; whole strips of them are filled.
    const Index first_row = head.visibility.first_row(plan.task.first + k0 + s) - r0;
    const Index skip = std::max<Index>(0, first_row) / kTileRows * kTileRows;
    const Index row_limit =
        head.visibility.row_limit(plan.task.first + k0 + s + strip_keys - 1) - r0;
    const Index past = std::min(rows, round_up(std::max<Index>(0, row_limit), kTileRows));
    if (skip >= past) continue;
    if (plan.problem.gradients.value.data != nullptr) {
      multiply<T, Storage::kTransposed>(
          strip_keys, plan.v_width, plan.weights + skip / kDepth<T> * kBuffer + s, kBuffer,
          depth<T>(past - skip), plan.right_d_out() + (r0 + skip) / kDepth<T> * plan.v_width,
          plan.v_width, plan.d_value + (k0 + s) * plan.v_width, plan.v_width);
    }
    if (plan.problem.gradients.key.data != nullptr) {
      multiply<T, Storage::kTransposed>(
          strip_keys, plan.qk_width, plan.d_scores + skip / kDepth<T> * kBuffer + s, kBuffer,
          depth<T>(past - skip), plan.right_query() + (r0 + skip) / kDepth<T> * plan.qk_width,
          plan.qk_width, plan.d_key + (k0 + s) * plan.qk_width, plan.qk_width);
    }
  }
}

/// All blocks of a query head that some row sees.
template <Mode kMode, class Score, class T>
void key_blocks(TaskPlan<Score, T>& plan, BackwardHead<Score>& head) {
  for (Index k0 = 0; k0 < plan.keys; k0 += kKeyBlock) {
    const Index keys = std::min(kKeyBlock, plan.keys - k0);
    const Index first = head.visibility.first_row(plan.task.first + k0) / kDepth<T> * kDepth<T>;
    const Index limit = head.visibility.row_limit(plan.task.first + k0 + keys - 1);
    const Index last = std::min(plan.rows, round_up(limit, kDepth<T>));
    for (Index r0 = first; r0 < last; r0 += kQueryBlock) {
      backward_block<kMode>(plan, head, k0, keys, r0, std::min(kQueryBlock, last - r0));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
SSA_AFTER_NAMESPACE();

#endif  // per-target include guard
