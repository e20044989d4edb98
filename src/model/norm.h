// LayerNorm as the blocks use it.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <memory>

#include "config/config.h"

namespace ssa {

/// LayerNorm over the width (Ba et al. 2016, arXiv 1607.06450). Parameters: weight (width) and bias
/// (width). With norm = "layer-1p" the factor is 1 + weight (Nemotron's, which starts from 0).
class LayerNorm : public torch::nn::Module {
 public:
  explicit LayerNorm(const ModelConfig& config);
  /// (rows, width) -> the same
  torch::Tensor forward(const torch::Tensor& hidden) const;

 private:
  bool plus_one_;
  double epsilon_;
  torch::Tensor weight_, bias_;
};

/// Null where the model has no norm.
std::shared_ptr<LayerNorm> make_norm(const ModelConfig& config);
/// The norm applied, or the input itself where there is none.
torch::Tensor normalized(const std::shared_ptr<LayerNorm>& norm, const torch::Tensor& hidden);

}  // namespace ssa
