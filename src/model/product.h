// Matrix products of hidden states with weights, in the precision that the Autocast which lives
// says.
#pragma once

#include <torch/types.h>

namespace ssa {

/// Whether this CPU has fast products of bfloat16 (AVX-512, AMX, or Arm's). Without, ATen's loops
/// take 72 ms for (64, 768) x (768, 3072), and 540 ms where the weight is laid out (inputs,
/// outputs), against 16 ms in float32 (one core of a Zen 3).
bool cpu_has_bfloat16_products();

/// rows·weight + bias: (rows, inputs), (inputs, outputs), (outputs) or undefined -> (rows,
/// outputs). In bfloat16 on a CPU without such products: widened_product. Of few rows on the CPU,
/// where no gradient is wanted: ssa/few_rows.h.
torch::Tensor product(const torch::Tensor& rows, const torch::Tensor& weight,
                      const torch::Tensor& bias = {});
/// The same with a weight of (outputs, inputs), as embeddings are.
torch::Tensor product_with_table(const torch::Tensor& rows, const torch::Tensor& table,
                                 const torch::Tensor& bias = {});

/// The product of the same numbers rounded to bfloat16, multiplied and summed in float32, the
/// result rounded to bfloat16: what products of bfloat16 are, but for the order of sums. Not twice
/// differentiable.
torch::Tensor widened_product(const torch::Tensor& rows, const torch::Tensor& weight,
                              const torch::Tensor& bias = {});

/// `values` rounded to bfloat16, in the type in which the CPU multiplies them: float32 without
/// bfloat16 products.
torch::Tensor rounded_factor(const torch::Tensor& values);

}  // namespace ssa
