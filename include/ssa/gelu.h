// GELU in its tanh form with the bias before it, fused: GPT-2's activation. ATen's pair (bias in
// the matrix product, then gelu) writes one more activation and computes tanh in 3 ns an element.
#pragma once

#include <cstdint>

#include "ssa/parallel.h"

namespace ssa {

/// out_ij = g(x_ij + bias_j), g(z) = z/2·(1 + tanh(√(2/π)·(z + 0.044715·z³))) (Hendrycks and Gimpel
/// 2016, arXiv 1606.08415). x, out: (rows, columns) contiguous; bias: (columns).
void bias_gelu_forward(const float* x, const float* bias, float* out, std::int64_t rows,
                       std::int64_t columns, const Parallel& parallel);

/// d_x_ij = d_out_ij·g'(x_ij + bias_j), for the x and bias of the forward pass.
void bias_gelu_backward(const float* x, const float* bias, const float* d_out, float* d_x,
                        std::int64_t rows, std::int64_t columns, const Parallel& parallel);

}  // namespace ssa
