// GPT-2's activation with the bias before it, differentiable.
#pragma once

#include <torch/types.h>

namespace ssa {

/// GELU in its tanh form of rows + bias: (rows, width), (width) -> (rows, width). float32 through
/// the fused kernel of ssa/gelu.h (a second derivative is refused), other types through ATen.
torch::Tensor bias_gelu(const torch::Tensor& rows, const torch::Tensor& bias);

}  // namespace ssa
