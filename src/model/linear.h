// y = x·W + b with GPT-2's weight layout.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>

namespace ssa {

/// Parameters: weight (inputs, outputs), as Hugging Face's Conv1D keeps it, and bias (outputs), if
/// it has one; both zero until initialize_weights.
class Linear : public torch::nn::Module {
 public:
  Linear(std::int64_t inputs, std::int64_t outputs, bool bias = true);

  /// (rows, inputs) -> (rows, outputs)
  torch::Tensor forward(const torch::Tensor& rows) const;
  /// rows·W, for who adds the bias together with something else.
  torch::Tensor product(const torch::Tensor& rows) const;
  bool has_bias() const { return bias_.defined(); }
  const torch::Tensor& bias() const { return bias_; }

 private:
  torch::Tensor weight_, bias_;
};

}  // namespace ssa
