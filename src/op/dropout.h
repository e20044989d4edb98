#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ssa {

/// Which weights survive dropout: bool (batch, heads, rows, columns), true = kept, for the query
/// rows first_row … first_row + rows - 1 and key columns from 0; batch row b has the counter
/// first_sequence + b. Depends on the seed and the
/// indices alone (ssa/philox.h), hence the same in forward and backward, for any blocking and
/// thread count.
at::Tensor dropout_keeps(const at::Tensor& seed, double dropout, std::int64_t first_sequence,
                         std::int64_t batch, std::int64_t heads, std::int64_t first_row,
                         std::int64_t rows, std::int64_t columns, at::Device device);

/// The same by tensor operations, for devices that run no C++ of ours.
at::Tensor dropout_keeps_by_tensors(const at::Tensor& seed, double dropout,
                                    std::int64_t first_sequence, std::int64_t batch,
                                    std::int64_t heads, std::int64_t first_row, std::int64_t rows,
                                    std::int64_t columns, at::Device device);

/// A seed from torch's CPU generator, not negative.
std::int64_t draw_dropout_seed();

/// A seed from the device's generator as a tensor on that device, without waiting for it. `traced`:
/// drawn by an operation that tracing sees.
at::Tensor draw_dropout_seed(at::Device device, bool traced);

}  // namespace ssa
