// The units of work that the dispatchers hand to the per-target kernels.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/packed.h"
#include "ssa/attention.h"

namespace ssa {

/// Forward: queries [first, last) of one query head.
struct ForwardTask {
  std::int64_t batch, head, first, last;
};

/// What the forward pass writes; null means not wanted, and without out no values are read.
template <class T>
struct ForwardOutputs {
  View4<T> out{};
  float* lse = nullptr;
  /// lse in base 2 as a sum of two floats, see Lse2.
  float *lse2_high = nullptr, *lse2_low = nullptr;
};

/// lse in base 2 for the backward pass, two floats a row, shaped like lse. Weights are 2^(φ2 −
/// lse2): where |lse| is large, its rounding to one float shows in every weight (at 64 by 4e-6),
/// while a plain softmax subtracts the exact maximum. Heads with such rows have theirs computed
/// again, as the forward pass had them.
struct Lse2 {
  std::vector<float> high, low;      ///< empty when no head needs it
  std::vector<unsigned char> exact;  ///< per (part, batch, query head): whether they are set
};

/// Everything the backward pass of one part reads and the caller's gradients.
template <class T>
struct BackwardProblem {
  AttentionArgs<T> args;
  View4<const T> out;
  const float* lse;
  View4<const T> d_out;
  const float* d_lse;
  const float *lse2_high, *lse2_low;
  const unsigned char* exact;  ///< as in Lse2, of this part
  AttentionGradients<T> gradients;
};

/// Where one query head's sums over the task's keys go, for what is not the task's alone.
struct BackwardSums {
  /// (query_length, query_width) with width rounded up to whole vectors: the task's share of the
  /// query gradient, not yet scaled. Null: the task has all keys and writes the gradient itself.
  float* query = nullptr;
  std::array<double, kMaxScoreParams>* params = nullptr;
  /// (1 + the score's parameters, query_length), zero before: per row Σ dφ and, for each parameter,
  /// Σ p·∂φ/∂param. See settle_params.
  float* rows = nullptr;
  /// The bias gradient where it is summed over queries or keys: element (i, j) adds to
  /// bias[i·row_stride + j·stride], strides 0 or 1. Null: not wanted, or not summed.
  double* bias = nullptr;
  std::int64_t bias_row_stride = 0, bias_stride = 0;
};

/// Takes from the parameter gradients what a row's Σ dφ is off dL: mathematically they are equal;
/// D, which comes from the forward pass's O, and P, computed again, agree only to rounding, and the
/// parameter gradient multiplies the difference with Σ p·∂φ/∂param, for large scores far more than
/// the gradient itself. `rows` as in BackwardSums, summed over all keys; lse and d_lse (may be
/// null) of the same head.
void settle_params(const float* rows, std::int64_t count, const float* lse, const float* d_lse,
                   std::span<double> params);

/// Backward: keys [first, last) of one kv head, all queries of its group.
struct BackwardTask {
  std::int64_t batch, kv, first, last;
  BackwardSums* sums;  ///< one per query head of the group
};

/// attention_forward without the decoding kernel; the arguments are checked.
template <class T>
void general_forward(const AttentionArgs<T>& args, const View4<T>& out, float* lse,
                     const Parallel& parallel);

/// Computes lse2 for the heads that have a row whose |lse| is so large that its rounding shows in
/// gradients of type T; lse is the call's.
template <class T>
Lse2 exact_lse2(const std::vector<Part<T>>& parts, std::int64_t lse_size, const float* lse,
                const Parallel& parallel);

}  // namespace ssa
