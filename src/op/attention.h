// The C++ face of the operator ssa::attention: differentiable, through the dispatcher.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ssa {

/// Everything of ssa::attention but query, key and value. Shapes: docs/operator.md.
struct AttentionOptions {
  std::string score = "ssa";
  /// One tensor of 1 or query_heads values per parameter, in the order of the score's list.
  std::vector<at::Tensor> params;
  std::optional<at::Tensor> mask;  ///< bool, true = may attend; broadcasts to (B, H_q, T_q, T_k)
  std::optional<at::Tensor> bias;  ///< added to the score before φ; broadcasts likewise
  std::optional<at::Tensor> key_lengths;  ///< int64 (B)
  bool causal = false;
  std::optional<double> scale;         ///< default 1/sqrt(head dimension)
  std::optional<std::int64_t> window;  ///< only keys nearer than this to the query's position
  /// (H_q) or (1): slope · distance is taken from the score before φ.
  std::optional<at::Tensor> alibi_slopes;
  /// int64 or int32, cumulative lengths of sequences packed into a batch of 1; both or neither.
  std::optional<at::Tensor> cu_query, cu_key;
  double dropout = 0.0;
  /// int64, one number, on the CPU or on query's device; none: drawn.
  std::optional<at::Tensor> seed;
  std::string kernel = "auto";  ///< "auto", "fused" or "composed"
};

struct AttentionResult {
  at::Tensor out;  ///< (B, H_q, T_q, D_v), dtype of query
  at::Tensor lse;  ///< (B, H_q, T_q), natural logarithm of the normaliser
};

/// query (B, H_q, T_q, D), key (B, H_kv, T_k, D), value (B, H_kv, T_k, D_v).
AttentionResult attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const AttentionOptions& options);

/// Results over disjoint sets of keys become the result over all of them:
///   lse = log Σ_k exp lse_k,   out = Σ_k exp(lse_k − lse)·out_k
/// score and params are those of the parts: a sink, which each part has in its normaliser, counts
/// once. Differentiable. docs/operator.md says what scores that count keys need.
AttentionResult merge(const std::vector<AttentionResult>& parts, const std::string& score,
                      const std::vector<at::Tensor>& params);

/// The weights p themselves, (B, H_q, T_q, T_k), without gradient or dropout: for statistics and
/// maps.
at::Tensor attention_weights(const at::Tensor& query, const at::Tensor& key,
                             const AttentionOptions& options);

/// The seed that the calling thread's last ssa::attention with dropout used: the one given, or the
/// one drawn from torch's default generator. Nothing before the first. Waits for a seed on a
/// device.
std::optional<std::int64_t> last_dropout_seed();

/// Which path the calling thread's last ssa::attention took: "fused", "triton", "composed", or ""
/// before the first.
std::string last_attention_path();

}  // namespace ssa
