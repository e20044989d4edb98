// The fused backward pass of one kv head for a range of keys: its key and value gradients, and the
// range's share of the gradients of its group's queries.
//
// Blocks of keys outside, blocks of queries inside. For each pair of blocks, with s the scores
// again and lse from the forward pass,
//   p = 2^(φ2(s) − lse2),  lse2 = lse·log2(e),  dφ = p·(dP − D + dL),  dP = dO·Vᵀ,  D = rowsum(dO ∘
//   O), ds = dφ·∂φ/∂s,  dV += Pᵀ·dO,  dK += dSᵀ·(scale·Q),  dQ += dS·K,  dparam += Σ dφ·∂φ/∂param.
// Dropout's factor f is made again: dP = f∘(dO·Vᵀ),  dV += (f∘P)ᵀ·dO.
// Sizes and buffers are backward_plan-inl.h, rows backward_rows-inl.h, blocks and strips
// backward_tiles-inl.h.

#if defined(SSA_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_ATTENTION_BACKWARD_INL_H_
#undef SSA_ATTENTION_BACKWARD_INL_H_
#else
#define SSA_ATTENTION_BACKWARD_INL_H_
#endif

#include <span>

#include "kernels/backward_tiles-inl.h"

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

/// Panels of the task's keys and values; those that no row sees are zero there, whatever they hold.
template <class Score, class T>
void pack_keys_and_values(TaskPlan<Score, T>& plan) {
  Matrix<T> key = matrix_of(plan.args.key, plan.task.batch, plan.task.kv);
  Matrix<T> value = matrix_of(plan.args.value, plan.task.batch, plan.task.kv);
  key.data = key.row(plan.task.first);
  value.data = value.row(plan.task.first);
  const bool filtered = plan.args.mask.data != nullptr || plan.args.bias.data != nullptr;
  pack_panels(key, plan.keys, plan.args.qk_dim, plan.key_panels);
  pack_panels(value, plan.keys, plan.args.v_dim, plan.value_panels);
  const bool copy = filtered || !key.is_packed(plan.args.qk_dim, plan.qk_width);
  if (copy) stack_rows(key, plan.keys, plan.args.qk_dim, plan.key_copy, plan.qk_width);
  plan.key_rows = plan.key_copy;
  if constexpr (!kPairs<T>) plan.key_rows = copy ? plan.key_copy : key.data;
  const auto erase = [&](Index j) {
    if (j < 0 || j >= plan.keys) return;
    erase_key(plan.key_panels, j, plan.qk_depth);
    erase_key(plan.value_panels, j, plan.v_depth);
    if (copy) erase_row<T>(plan.key_copy, j, plan.qk_width);
  };
  const Index unseen =
      std::min(Band(plan.args, plan.task.batch).first_seen(), plan.task.last) - plan.task.first;
  for (Index j = 0; j < unseen; ++j) erase(j);
  if (filtered) {
    for (const Index hidden : poisoned_hidden_keys(plan.args, plan.task.batch, plan.task.kv)) {
      erase(hidden - plan.task.first);
    }
  }
  plan.largest_key_square = largest_square<T>(plan.key_panels, plan.keys, plan.qk_depth);
}

/// One query head: its rows against all keys of the task.
template <class Score, class T>
void run_head(TaskPlan<Score, T>& plan, Index h, BackwardSums& sums) {
  BackwardHead<Score> head{
      h,
      Visibility(plan.args, plan.task.batch, h),
      HeadScore<Score>(plan.args, h),
      ScoreFilter(Visibility(plan.args, plan.task.batch, h), plan.filter_scratch),
      Dropout(plan.args, plan.task.batch, h),
      sums};
  const bool all_keys = sums.rows == nullptr;
  if (!all_keys) plan.row_sums = sums.rows;
  if (all_keys) std::fill_n(plan.row_sums, plan.row_sums_size(), 0.0f);
  load_rows(plan, head);
  if (sums.query != nullptr) plan.d_query = sums.query;
  std::fill_n(plan.d_query, plan.rows * plan.qk_width, 0.0f);
  const float q2 = largest_square_of_rows<T>(plan.query, plan.rows, plan.qk_row) *
                   plan.tile_factor() * plan.tile_factor();
  // The bound is that of this task's keys; lse is of all keys, whose scores may be far larger.
  const bool lse_fits =
      std::all_of(plan.lse2, plan.lse2 + plan.rows, [](float x) { return x <= kSafeLse2; });
  switch (lse_fits ? choose_mode(head.visibility, q2, plan.largest_key_square, head.score)
                   : Mode::kGeneral) {
    case Mode::kBounded:
      key_blocks<Mode::kBounded>(plan, head);
      break;
    case Mode::kBoundedFiltered:
      key_blocks<Mode::kBoundedFiltered>(plan, head);
      break;
    case Mode::kGeneral:
      key_blocks<Mode::kGeneral>(plan, head);
  }
  if (all_keys) {
    const Index at = plan.args.lse_offset(plan.task.batch, h);
    settle_params(plan.row_sums, plan.rows, plan.problem.lse + at,
                  plan.problem.d_lse == nullptr ? nullptr : plan.problem.d_lse + at,
                  std::span(*sums.params).first(Score::kParams.size()));
  }
  const View4<T>& d_query = plan.problem.gradients.query;
  if (sums.query != nullptr || d_query.data == nullptr) return;
  for (Index i = 0; i < plan.rows; ++i) {
    write_row(plan.d_query + i * plan.qk_width, plan.args.qk_dim, plan.args.scale,
              d_query.at(plan.task.batch, h, i), d_query.stride[3]);
  }
}

/// The task's rows of a key or value gradient; zero for keys that this sequence does not have.
template <class Score, class T>
void write_rows(const TaskPlan<Score, T>& plan, const View4<T>& gradient, const float* rows,
                Index width, Index columns, float factor) {
  if (gradient.data == nullptr) return;
  for (Index j = 0; j < plan.task.last - plan.task.first; ++j) {
    T* to = gradient.at(plan.task.batch, plan.task.kv, plan.task.first + j);
    if (j < plan.keys) {
      write_row(rows + j * width, columns, factor, to, gradient.stride[3]);
    } else {
      for (Index c = 0; c < columns; ++c) to[c * gradient.stride[3]] = T(0.0f);
    }
  }
}

template <class Score, class T>
void run_backward_task(const BackwardProblem<T>& problem, const BackwardTask& task) {
  TaskPlan<Score, T> plan(problem, task);
  pack_keys_and_values(plan);
  std::fill_n(plan.d_key, plan.keys * plan.qk_width, 0.0f);
  std::fill_n(plan.d_value, plan.keys * plan.v_width, 0.0f);
  for (Index g = 0; g < plan.group; ++g) {
    run_head(plan, plan.task.kv * plan.group + g, plan.task.sums[g]);
  }
  write_rows(plan, plan.problem.gradients.key, plan.d_key, plan.qk_width, plan.args.qk_dim,
             plan.tile_factor());
  write_rows(plan, plan.problem.gradients.value, plan.d_value, plan.v_width, plan.args.v_dim, 1.0f);
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
SSA_AFTER_NAMESPACE();

#endif  // per-target include guard
