#include "model/norm.h"

#include <torch/types.h>

#include "ssa/check.h"

namespace ssa {

Norm::Norm(NormKind kind, std::int64_t size, double epsilon)
    : kind_(kind),
      epsilon_(epsilon),
      weight_(register_parameter(
          "weight", kind == NormKind::layer_1p ? torch::zeros({size}) : torch::ones({size}))) {
  if (kind != NormKind::rms) bias_ = register_parameter("bias", torch::zeros({size}));
}

torch::Tensor Norm::forward(const torch::Tensor& hidden) const {
  switch (kind_) {
    case NormKind::layer:
      return torch::layer_norm(hidden, weight_.sizes(), weight_, bias_, epsilon_);
    case NormKind::layer_1p:
      return torch::layer_norm(hidden, weight_.sizes(), weight_ + 1, bias_, epsilon_);
    case NormKind::rms:
      return torch::rms_norm(hidden, weight_.sizes(), weight_, epsilon_);
    case NormKind::none:
      break;
  }
  SSA_CHECK(false, "model: a norm without a formula");
  return {};
}

std::shared_ptr<Norm> make_norm(const ModelConfig& config) {
  if (config.norm == NormKind::none) return nullptr;
  return std::make_shared<Norm>(config.norm, config.width, config.norm_epsilon);
}

torch::Tensor normalized(const std::shared_ptr<Norm>& norm, const torch::Tensor& hidden) {
  return norm ? norm->forward(hidden) : hidden;
}

}  // namespace ssa
