#include "model/norm.h"

#include <torch/torch.h>

namespace ssa {

LayerNorm::LayerNorm(const ModelConfig& config)
    : plus_one_(config.norm == "layer-1p"),
      epsilon_(config.norm_epsilon),
      weight_(register_parameter(
          "weight", plus_one_ ? torch::zeros({config.width}) : torch::ones({config.width}))),
      bias_(register_parameter("bias", torch::zeros({config.width}))) {}

torch::Tensor LayerNorm::forward(const torch::Tensor& hidden) const {
  const torch::Tensor factor = plus_one_ ? weight_ + 1 : weight_;
  return torch::layer_norm(hidden, weight_.sizes(), factor, bias_, epsilon_);
}

std::shared_ptr<LayerNorm> make_norm(const ModelConfig& config) {
  return config.norm == "none" ? nullptr : std::make_shared<LayerNorm>(config);
}

torch::Tensor normalized(const std::shared_ptr<LayerNorm>& norm, const torch::Tensor& hidden) {
  return norm ? norm->forward(hidden) : hidden;
}

}  // namespace ssa
