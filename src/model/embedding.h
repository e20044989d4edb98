// One vector for each of so many positions, token ids or token types.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>

namespace ssa {

/// Parameter: weight (rows, width), zero until initialize_weights.
class Embedding : public torch::nn::Module {
 public:
  Embedding(std::int64_t rows, std::int64_t width)
      : weight_(register_parameter("weight", torch::zeros({rows, width}))) {}

  const torch::Tensor& weight() const { return weight_; }

 private:
  torch::Tensor weight_;
};

}  // namespace ssa
