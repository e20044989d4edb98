// Attention from ATen operations: any device and floating type, and the check on the fused
// kernels. Walks over blocks of query rows, so that memory beyond the arguments is O(length ·
// block).
#pragma once

#include <vector>

#include "op/call.h"

namespace ssa {

/// Fills out and lse (shapes and types of make_outputs).
void composed_forward(const AttentionCall& call, const at::Tensor& out, const at::Tensor& lse);

/// The wanted gradients of differentiable_inputs, in order. Scores are recomputed block by block.
std::vector<at::Tensor> composed_backward(const BackwardCall& call);

/// The weights p, (batch, query heads, query length, key length), in compute_type. The call's value
/// and dropout are not read.
at::Tensor composed_weights(const AttentionCall& call);

}  // namespace ssa
