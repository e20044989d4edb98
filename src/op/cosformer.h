// cosFormer (Qin et al. 2022, arXiv 2202.08791): attention in time and memory linear in the length.
//   q' = relu(q), k' = relu(k), s_ij = q'_i·k'_j · cos(π/2·(i − j)/m)
//   out_i = Σ_j s_ij v_j / max(Σ_j s_ij, ε) over the keys that query i sees
// No 1/sqrt(head dimension). The position i of a query is its row + key length − query length, so
// that decoding with a cache equals prefill; for that, m must stay the same. s is never negative
// where m >= key length and, without causality, m >= query length.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace ssa {

/// query (batch, query heads, query length, d), key (batch, key heads, key length, d), value
/// (batch, key heads, key length, dv), all float32 or all float64. key_lengths, int64 (batch): keys
/// from there on are hidden and may hold anything. causal: query i sees keys j <= i; rows in front
/// of the first key see nothing. m is one number. Rows that see nothing, or whose scores are all 0,
/// are 0. Returns (batch, query heads, query length, dv).
at::Tensor cosformer_forward(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, const std::optional<at::Tensor>& key_lengths,
                             bool causal, const at::Tensor& m);

/// The gradients by query, key and value.
std::tuple<at::Tensor, at::Tensor, at::Tensor> cosformer_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const std::optional<at::Tensor>& key_lengths, bool causal,
    const at::Tensor& m);

/// s_ij / max(Σ_j s_ij, ε), 0 where hidden: (batch, query heads, query length, key length). For
/// attention maps: quadratic memory.
at::Tensor cosformer_weights(const at::Tensor& query, const at::Tensor& key,
                             const std::optional<at::Tensor>& key_lengths, bool causal,
                             const at::Tensor& m);

}  // namespace ssa
