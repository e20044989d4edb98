// Dropout of a block's output together with the sum with its residual. ATen's four passes (draw a
// mask, scale it, multiply, add) draw one number after another on one thread.
#pragma once

#include <cstdint>

#include "ssa/bfloat16.h"
#include "ssa/parallel.h"

namespace ssa {

/// out_ij = residual_ij + x_ij·keep_ij/(1 − p). keep_ij is 0 where the word of (seed, batch 0, head
/// 0, row i, column j) is below dropout_threshold(p), else 1 (ssa/philox.h): a function of the seed
/// and the place alone. x, residual, out: (rows, columns) contiguous; 0 <= p < 1.
void dropout_add_forward(const float* x, const float* residual, float* out, std::int64_t rows,
                         std::int64_t columns, double p, std::uint64_t seed,
                         const Parallel& parallel);
void dropout_add_forward(const BFloat16* x, const float* residual, float* out, std::int64_t rows,
                         std::int64_t columns, double p, std::uint64_t seed,
                         const Parallel& parallel);

/// d_x_ij = d_out_ij·keep_ij/(1 − p), for the p and seed of the forward pass.
void dropout_add_backward(const float* d_out, float* d_x, std::int64_t rows, std::int64_t columns,
                          double p, std::uint64_t seed, const Parallel& parallel);
void dropout_add_backward(const float* d_out, BFloat16* d_x, std::int64_t rows,
                          std::int64_t columns, double p, std::uint64_t seed,
                          const Parallel& parallel);

}  // namespace ssa
