#pragma once

#include <torch/types.h>

namespace ssa {

/// residual + dropout(x), with a seed from torch's CPU generator. Beside float32 and bfloat16 x
/// with a float32 residual on the CPU (ssa/dropout_add.h), ATen's operators.
torch::Tensor dropout_add(const torch::Tensor& x, const torch::Tensor& residual, double p);

}  // namespace ssa
