// BFloat16 attention on processors without products of bfloat16: tensors are widened to float, and
// the results rounded. Costs the tensors once more in float; the products are float's.
#pragma once

#include "ssa/attention.h"

namespace ssa {

void widened_forward(const AttentionArgs<BFloat16>& args, const View4<BFloat16>& out, float* lse,
                     const Parallel& parallel);
void widened_backward(const AttentionArgs<BFloat16>& args, const View4<const BFloat16>& out,
                      const float* lse, const View4<const BFloat16>& d_out, const float* d_lse,
                      const AttentionGradients<BFloat16>& gradients, const Parallel& parallel);

}  // namespace ssa
