// Products of a few rows with a matrix of weights, what a step of text generation is made of. Up to
// four rows take as long as reading the weights once; MKL's take 3 to 4 times as long for 8 rows as
// for one (docs/kernels.md).
#pragma once

#include <cstdint>

#include "ssa/bfloat16.h"
#include "ssa/parallel.h"

namespace ssa {

/// Most rows that these functions take.
inline constexpr std::int64_t kFewRows = 16;

/// out (rows, outputs) = rows (rows, inputs) · weight (inputs, outputs) + bias (outputs), null for
/// none. Everything contiguous. Products are of float32, of the bfloat16 weights' values, and so
/// are the sums. The bits of a row depend neither on the other rows nor on the threads.
void few_rows_product(const float* rows, std::int64_t count, const float* weight,
                      std::int64_t inputs, std::int64_t outputs, const float* bias, float* out,
                      const Parallel& parallel);
void few_rows_product(const float* rows, std::int64_t count, const BFloat16* weight,
                      std::int64_t inputs, std::int64_t outputs, const float* bias, float* out,
                      const Parallel& parallel);

/// The same with a weight of (outputs, inputs), as embeddings are.
void few_rows_product_with_table(const float* rows, std::int64_t count, const float* table,
                                 std::int64_t inputs, std::int64_t outputs, const float* bias,
                                 float* out, const Parallel& parallel);
void few_rows_product_with_table(const float* rows, std::int64_t count, const BFloat16* table,
                                 std::int64_t inputs, std::int64_t outputs, const float* bias,
                                 float* out, const Parallel& parallel);

}  // namespace ssa
