// The loss of language models, without ever holding the logits of all tokens.
#pragma once

#include <torch/types.h>

namespace ssa {

/// −log softmax(hidden·embeddingsᵀ)[target] of each row: (rows, width), (vocabulary, width), int64
/// (rows) -> (rows), float32 (float64 for float64). Under autocast the products are of bfloat16.
///
/// The logits exist for some rows at a time (all of 1024 tokens and 50 257 ids would be 206 MB in
/// float32, and their gradient as much again). The gradients are therefore made in the forward
/// pass, for the sum of the rows, which makes the result differentiable through its sum or mean
/// alone: a gradient that differs from row to row is refused (on other devices than the CPU it
/// makes NaN), and so is a second backward pass. Targets must be below the vocabulary's size
/// (checked).
torch::Tensor linear_cross_entropy(const torch::Tensor& hidden, const torch::Tensor& embeddings,
                                   const torch::Tensor& targets);

}  // namespace ssa
