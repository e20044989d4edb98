// The bridge from tensors to the fused kernels (float32 and bfloat16 on the CPU, any strides).
#pragma once

#include <vector>

#include "op/call.h"

namespace ssa {

void fused_forward(const AttentionCall& call, const at::Tensor& out, const at::Tensor& lse);
std::vector<at::Tensor> fused_backward(const BackwardCall& backward);

}  // namespace ssa
