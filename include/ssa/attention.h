// Fused attention on the CPU, forward and backward, for every scoring function of scores-inl.h.
//
//   s_ij = scale · q_i·k_j + bias_ij,   p_ij = exp φ(s_ij) / Σ_{k visible to i} exp φ(s_ik),
//   out_i = Σ_j p_ij v_j,               lse_i = log Σ_j exp φ(s_ij)
//
// A key j is visible to query i unless the mask, key_lengths, causality or s_ij = -inf exclude it.
// A row that sees no key has out = 0, lse = -inf and zero gradients. Keys that no row of their
// sequence may see are never read into a result, whatever they hold (NaN and inf included).
// Positions are aligned at the bottom right: query i stands at i' = i + key_length - query_length.
// Causal: it sees keys j <= i'.
// Memory beyond the arguments is O(length · dimension). Same input and thread count, same bits.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "ssa/bfloat16.h"
#include "ssa/parallel.h"
#include "ssa/score_info.h"

namespace ssa {

/// A tensor of rank 4 seen through strides (in elements, any sign, 0 = broadcast where allowed).
template <class T>
struct View4 {
  T* data = nullptr;
  std::array<std::int64_t, 4> stride{};

  T* at(std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3 = 0) const {
    return data + i0 * stride[0] + i1 * stride[1] + i2 * stride[2] + i3 * stride[3];
  }
};

/// One parameter of the score: head h reads data[h * stride]; stride 0 = one value for all heads.
template <class T>
struct HeadValues {
  T* data = nullptr;
  std::int64_t stride = 0;
};

/// Everything that defines one attention problem but the tensors themselves. T is the type of
/// scores, sums, parameters and bias: float (fused kernels) or double (reference).
template <class T>
struct AttentionProblem {
  std::string_view score = "ssa";
  std::int64_t batch = 0, query_heads = 0, kv_heads = 0;  ///< query_heads % kv_heads == 0 (GQA)
  std::int64_t query_length = 0, key_length = 0;
  std::int64_t qk_dim = 0, v_dim = 0;
  T scale = 1;
  bool causal = false;
  std::array<HeadValues<const T>, kMaxScoreParams> params{};  ///< in the order of the score's list
  View4<const bool>
      mask;  ///< (batch, query_heads, query_length, key_length), true = may attend; null = none
  View4<const T> bias;  ///< same shape, added to the score before φ; null = none
  const std::int64_t* key_lengths =
      nullptr;  ///< (batch): only keys [0, key_lengths[b]) exist; null = all
  /// Query i sees key j only if i' - j < window and, without causality, j - i' < window. 0 = none.
  std::int64_t window = 0;
  /// Per query head: slope·|i' - j| is taken from the score before φ (ALiBi, arXiv 2108.12409).
  /// Null = none.
  HeadValues<const T> alibi_slopes{};
  /// Of the weights in out, after the normalisation: each becomes 0 with this probability, else is
  /// divided by 1 - dropout. Which ones fall: philox.h; its batch is first_sequence + batch row.
  double dropout = 0;
  std::uint64_t seed = 0;
  std::int64_t first_sequence = 0;
  /// Packed sequences, of a batch of 1: sequence s has the queries [cu_query[s], cu_query[s + 1]),
  /// which see keys [cu_key[s], cu_key[s + 1]) only. Positions, dropout's rows and columns count
  /// from a sequence's start, and dropout's batch is first_sequence + s. Both have sequences + 1
  /// elements, the first 0, the last the length. Null = none; not together with mask, bias or
  /// key_lengths.
  std::int64_t sequences = 0;
  const std::int64_t *cu_query = nullptr, *cu_key = nullptr;
  /// Distance of two heads in lse and its gradient; 0 = query_length.
  std::int64_t lse_head_stride = 0;

  /// Where the rows of a head begin in lse.
  std::int64_t lse_offset(std::int64_t b, std::int64_t h) const {
    return (b * query_heads + h) * (lse_head_stride == 0 ? query_length : lse_head_stride);
  }
};

/// What scores are computed in for tensors of type T.
template <class T>
using ScoreType = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;

/// T is float or BFloat16 (fused kernels) or double (reference).
template <class T>
struct AttentionArgs : AttentionProblem<ScoreType<T>> {
  View4<const T> query;  ///< (batch, query_heads, query_length, qk_dim)
  View4<const T> key;    ///< (batch, kv_heads, key_length, qk_dim)
  View4<const T> value;  ///< (batch, kv_heads, key_length, v_dim)
};

/// Where the backward pass writes. Null data = not wanted. Every gradient is overwritten; the
/// caller initialises nothing.
template <class T>
struct AttentionGradients {
  View4<T> query, key, value;  ///< shapes of the inputs
  /// Same shape as args.bias. A stride of 0 means broadcast: the gradient is summed over that
  /// dimension.
  View4<ScoreType<T>> bias;
  /// One value per query head, or the sum over heads where stride is 0.
  std::array<HeadValues<ScoreType<T>>, kMaxScoreParams> params{};
};

/// out: (batch, query_heads, query_length, v_dim); lse: (batch, query_heads, query_length),
/// contiguous. Throws std::invalid_argument for an unknown score, inconsistent sizes, a key length
/// outside [0, key_length], or a parameter that is not finite or not > 0.
void attention_forward(const AttentionArgs<float>& args, const View4<float>& out, float* lse,
                       const Parallel& parallel);
void attention_forward(const AttentionArgs<BFloat16>& args, const View4<BFloat16>& out, float* lse,
                       const Parallel& parallel);

/// out and lse are the forward's results; d_out has out's shape; d_lse has lse's shape and may be
/// null.
void attention_backward(const AttentionArgs<float>& args, const View4<const float>& out,
                        const float* lse, const View4<const float>& d_out, const float* d_lse,
                        const AttentionGradients<float>& gradients, const Parallel& parallel);
void attention_backward(const AttentionArgs<BFloat16>& args, const View4<const BFloat16>& out,
                        const float* lse, const View4<const BFloat16>& d_out, const float* d_lse,
                        const AttentionGradients<BFloat16>& gradients, const Parallel& parallel);

/// The same two in double by plain loops (reference.cc): the oracle of every test.
void reference_forward(const AttentionArgs<double>& args, const View4<double>& out, double* lse);
void reference_backward(const AttentionArgs<double>& args, const View4<const double>& d_out,
                        const double* d_lse, const AttentionGradients<double>& gradients);

/// The instruction set the fused kernels run on, as Highway names it ("AVX3_ZEN4", "AVX3", "AVX2",
/// …). Environment variable SSA_TARGET=AVX3|AVX2|SSE4|EMU128 … restricts the choice (tests, bench).
const char* kernel_target();

}  // namespace ssa
