// The norms of blocks.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>

#include "config/model_config.h"

namespace ssa {

/// Over the last dimension: LayerNorm (Ba et al. 2016, arXiv 1607.06450), parameters weight and
/// bias; with layer_1p the factor is 1 + weight (Nemotron's, which starts from 0); or RMSNorm
/// (Zhang, Sennrich 2019, arXiv 1910.07467), parameter weight.
class Norm : public torch::nn::Module {
 public:
  /// `kind` is not NormKind::none.
  Norm(NormKind kind, std::int64_t size, double epsilon);
  /// (…, size) -> the same
  torch::Tensor forward(const torch::Tensor& hidden) const;

 private:
  NormKind kind_;
  double epsilon_;
  torch::Tensor weight_, bias_;  ///< bias: undefined with rms
};

/// Over the width; null where the model has no norm.
std::shared_ptr<Norm> make_norm(const ModelConfig& config);
/// The norm applied, or the input itself where there is none.
torch::Tensor normalized(const std::shared_ptr<Norm>& norm, const torch::Tensor& hidden);

}  // namespace ssa
