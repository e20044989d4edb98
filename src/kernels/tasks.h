// The units of work that the dispatchers hand to the per-target kernels.
#pragma once

#include <array>
#include <cstdint>

#include "ssa/attention.h"

namespace ssa {

/// Forward: queries [first, last) of one query head.
struct ForwardTask {
  std::int64_t batch, head, first, last;
};

/// Everything the backward pass reads and the caller's gradients.
struct BackwardProblem {
  const AttentionArgs<float>& args;
  View4<const float> out;
  const float* lse;
  View4<const float> d_out;
  const float* d_lse;
  const AttentionGradients<float>& gradients;
};

/// Where one query head's sums over the task's keys go, for what is not the task's alone.
struct BackwardSums {
  /// (query_length, query_width) with width rounded up to whole vectors: the task's share of the
  /// query gradient, not yet scaled. Null: the task has all keys and writes the gradient itself.
  float* query = nullptr;
  std::array<double, kMaxScoreParams>* params = nullptr;
  /// The bias gradient where it is summed over queries or keys: element (i, j) adds to
  /// bias[i·row_stride + j·stride], strides 0 or 1. Null: not wanted, or not summed.
  double* bias = nullptr;
  std::int64_t bias_row_stride = 0, bias_stride = 0;
};

/// Backward: keys [first, last) of one kv head, all queries of its group.
struct BackwardTask {
  std::int64_t batch, kv, first, last;
  BackwardSums* sums;  ///< one per query head of the group
};

}  // namespace ssa
