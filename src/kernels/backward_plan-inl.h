// The backward pass of one task: its sizes, its buffers, and one query head's state.

#if defined(SSA_BACKWARD_PLAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_BACKWARD_PLAN_INL_H_
#undef SSA_BACKWARD_PLAN_INL_H_
#else
#define SSA_BACKWARD_PLAN_INL_H_
#endif

#include <algorithm>
#include <vector>

#include "kernels/dropout-inl.h"
#include "kernels/head_score-inl.h"
#include "kernels/packing-inl.h"
#include "kernels/scratch.h"
#include "kernels/tasks.h"
#include "kernels/visibility-inl.h"

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

inline constexpr Index kQueryBlock = 96;
inline constexpr Index kKeyBlock = 128 / kPanel * kPanel;
inline constexpr Index kFewKeys = 16;
/// A row of the buffers holds a block of keys, rounded up to strips of the transposed products.
inline constexpr Index kBuffer = round_up(round_up(kKeyBlock, kTileRows), kLanes);
static_assert(kBuffer <= ScoreFilter::kMaxKeys);
static_assert(kQueryBlock % 2 == 0 && kTileRows % 2 == 0);  // pairs of rows lie in one strip

/// One query head's state while it is worked on.
template <class Score>
struct BackwardHead {
  Index head;
  Visibility visibility;
  HeadScore<Score> score;
  ScoreFilter filter;
  Dropout dropout;
  BackwardSums& sums;
};

/// A task's sizes and buffers, which all of its functions share.
template <class Score, class T>
struct TaskPlan {
  TaskPlan(const BackwardProblem<T>& problem, const BackwardTask& task)
      : problem(problem),
        args(problem.args),
        task(task),
        group(args.query_heads / args.kv_heads),
        keys(std::max<Index>(0, std::min(task.last, Band(args, task.batch).keys) - task.first)),
        rows(args.query_length),
        qk_depth(depth<T>(args.qk_dim)),
        v_depth(depth<T>(args.v_dim)),
        qk_row(round_up(qk_depth, kLanes)),
        v_row(round_up(v_depth, kLanes)),
        qk_width(round_up(args.qk_dim, kLanes)),
        v_width(round_up(args.v_dim, kLanes)),
        scratch(lay_out(nullptr)),
        keys_seen(static_cast<std::size_t>(kCountsKeys<Score> ? rows : 0)),
        kept(static_cast<std::size_t>(kHasSink<Score> ? rows : 0), 1.0f),
        sink_has_all(kept.size()) {
    lay_out(&scratch);
  }

  /// Queries of float are scaled when they are copied, others when they have become scores.
  float tile_factor() const { return kPairs<T> ? args.scale : 1.0f; }

  /// Floats of BackwardSums::rows.
  Index row_sums_size() const { return (1 + static_cast<Index>(Score::kParams.size())) * rows; }

  /// Queries and dO as the right sides of products.
  const float* right_query() const { return kPairs<T> ? query_stack : query; }
  const float* right_d_out() const { return kPairs<T> ? d_out_stack : d_out; }

  const BackwardProblem<T>& problem;
  const AttentionArgs<T>& args;
  const BackwardTask task;
  const Index group;
  const Index keys;  ///< of the task's range, those that this sequence has
  const Index rows;
  const Index qk_depth, v_depth;  ///< lanes of a contraction over a head's dimension
  const Index qk_row, v_row;      ///< the same in whole vectors: rows of left sides
  const Index qk_width, v_width;  ///< head dimensions in whole vectors: rows of right sides
  float *key_panels = nullptr, *value_panels = nullptr, *key_copy = nullptr;
  float *d_key = nullptr, *d_value = nullptr;                         ///< sums over the group
  float *query = nullptr, *d_out_copy = nullptr, *d_query = nullptr;  ///< of the current head
  float *lse2 = nullptr, *lse2_low = nullptr, *delta = nullptr;       ///< lse·log2(e), D − dL
  float *weights = nullptr, *d_scores = nullptr;                      ///< P and dS of a block
  float *query_stack = nullptr, *d_out_stack = nullptr;               ///< with pairs: right sides
  float *strip_weights = nullptr, *strip_d_scores = nullptr;  ///< with pairs: before they narrow
  float* row_sums = nullptr;                                  ///< BackwardSums::rows
  float *d_out_panel = nullptr, *filter_scratch = nullptr;
  float* factors = nullptr;  ///< dropout's, of a row of a block
  Scratch scratch;
  std::vector<Index> keys_seen;  ///< per row of the head, for scores that count keys
  std::vector<float> kept;       ///< per row, with a sink: the keys' share of the whole normaliser
  std::vector<char> sink_has_all;  ///< per row, with a sink: kept is below floats
  const float *key_rows = nullptr, *d_out = nullptr;
  float largest_key_square = 0.0f;

 private:
  /// Assigns the scratch pieces, or with null only measures them.
  Index lay_out(Scratch* scratch) {
    Index size = 0;
    const auto take = [&](float*& piece, Index floats) {
      if (scratch != nullptr) piece = scratch->take(floats);
      size += Scratch::size_of(floats);
    };
    take(key_panels, panels_size<T>(keys, args.qk_dim));
    take(value_panels, panels_size<T>(keys, args.v_dim));
    take(key_copy, depth<T>(keys) * qk_width);
    take(d_key, keys * qk_width);
    take(d_value, keys * v_width);
    take(query, rows * qk_row);
    take(d_out_copy, rows * v_row);
    take(query_stack, kPairs<T> ? depth<T>(rows) * qk_width : 0);
    take(d_out_stack, kPairs<T> ? depth<T>(rows) * v_width : 0);
    take(d_query, rows * qk_width);
    take(lse2, rows);
    take(lse2_low, rows);
    take(delta, round_up(rows, kLanes));
    take(row_sums, row_sums_size());
    take(d_out_panel, 2 * v_depth * kPanel);
    take(weights, depth<T>(kQueryBlock) * kBuffer);
    take(d_scores, depth<T>(kQueryBlock) * kBuffer);
    take(strip_weights, kPairs<T> ? kTileRows * kBuffer : 0);
    take(strip_d_scores, kPairs<T> ? kTileRows * kBuffer : 0);
    take(filter_scratch, ScoreFilter::kScratch);
    take(factors, kBuffer);
    return size;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace ssa
SSA_AFTER_NAMESPACE();

#endif  // per-target include guard
