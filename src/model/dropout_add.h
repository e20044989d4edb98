// Dropout, on every device with seeds from torch's CPU generator.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace ssa {

/// residual + dropout(x). float32 and bfloat16 x with a float32 residual on the CPU through
/// ssa/dropout_add.h, on other devices by its twin; other types through ATen's operators on the
/// CPU.
torch::Tensor dropout_add(const torch::Tensor& x, const torch::Tensor& residual, double p);

/// x without dropout unless `training`. On the CPU ATen's.
torch::Tensor apply_dropout(const torch::Tensor& x, double p, bool training);

/// The twin, made of ATen's operators: x (rows, columns) with what ssa/dropout_add.h drops for that
/// seed set to 0 and the rest divided by 1 − p, in float32 at least.
torch::Tensor seeded_dropout(const torch::Tensor& x, double p, std::int64_t seed);

}  // namespace ssa
