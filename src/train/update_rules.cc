#include "train/update_rules.h"

#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "ssa/check.h"

namespace ssa {
namespace {

/// Adam and AdamW (arXiv 1412.6980, 1711.05101) through PyTorch's fused kernels.
class AdamRule : public UpdateRule {
 public:
  explicit AdamRule(bool decoupled) : decoupled_(decoupled) {}

  std::span<const std::string_view> moments() const override {
    static constexpr std::array<std::string_view, 2> names = {"first_moment", "second_moment"};
    return names;
  }

  void update(std::span<const UpdatedParameter> parameters, const TrainConfig& config,
              std::int64_t step) const override {
    std::map<std::pair<double, double>, std::vector<const UpdatedParameter*>> groups;
    for (const UpdatedParameter& one : parameters) {
      groups[{one.learning_rate, one.weight_decay}].push_back(&one);
    }
    // The fused kernels correct by 1 - beta^step: at step 10^9 that is 1, i.e. no correction.
    const double counted = config.bias_correction ? static_cast<double>(step) : 1e9;
    const auto fused = decoupled_ ? &at::_ops::_fused_adamw_::call : &at::_ops::_fused_adam_::call;
    for (const auto& [rates, group] : groups) {
      std::vector<torch::Tensor> weights, gradients, first, second, steps;
      for (const UpdatedParameter* one : group) {
        weights.push_back(one->parameter);
        gradients.push_back(one->gradient);
        first.push_back(one->moments[0]);
        second.push_back(one->moments[1]);
        steps.push_back(torch::full({}, counted, one->parameter.options().dtype(torch::kFloat32)));
      }
      fused(weights, gradients, first, second, {}, steps, rates.first, config.beta1, config.beta2,
            rates.second, config.epsilon, /*amsgrad=*/false, /*maximize=*/false, {}, {});
    }
  }

 private:
  bool decoupled_;
};

/// Muon (Jordan et al. 2024): the momentum's direction with all singular values made 1. Scaled by
/// 0.2·√(the larger side), which gives updates the size of AdamW's, so that learning rate and decay
/// are of the same kind (Liu et al. 2025, arXiv 2502.16982).
class MuonRule : public UpdateRule {
 public:
  std::span<const std::string_view> moments() const override {
    static constexpr std::array<std::string_view, 1> names = {"momentum"};
    return names;
  }

  void update(std::span<const UpdatedParameter> parameters, const TrainConfig& config,
              std::int64_t /*step*/) const override {
    for (const UpdatedParameter& one : parameters) {
      torch::Tensor momentum = one.moments[0], parameter = one.parameter;
      momentum.lerp_(one.gradient, 1 - config.momentum);
      const torch::Tensor direction = one.gradient.lerp(momentum, config.momentum);  // Nesterov's
      parameter.mul_(1 - one.learning_rate * one.weight_decay);
      std::int64_t begin = 0;
      for (const std::int64_t columns : one.matrix_columns) {
        const torch::Tensor matrix = direction.narrow(1, begin, columns);
        const auto side = static_cast<double>(std::max(matrix.size(0), columns));
        parameter.narrow(1, begin, columns)
            .sub_(orthogonalized(matrix), one.learning_rate * 0.2 * std::sqrt(side));
        begin += columns;
      }
    }
  }
};

}  // namespace

const UpdateRule& update_rule(OptimizerKind optimizer, bool matrix) {
  static const AdamRule adam(false), adamw(true);
  static const MuonRule muon;
  switch (optimizer) {
    case OptimizerKind::adam:
      return adam;
    case OptimizerKind::adamw:
      return adamw;
    case OptimizerKind::muon:
      if (matrix) return muon;
      return adamw;
  }
  SSA_CHECK(false, "an optimizer without a rule");
  return adam;
}

torch::Tensor orthogonalized(const torch::Tensor& matrix) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const bool tall = matrix.size(0) > matrix.size(1);
  torch::Tensor x = tall ? matrix.t() : matrix;
  x = x / x.norm().clamp_min(1e-7);
  for (int i = 0; i < 5; ++i) {
    const torch::Tensor square = torch::mm(x, x.t());
    const torch::Tensor factor = torch::addmm(square, square, square, b, c);
    x = torch::addmm(x, factor, x, a, 1.0);
  }
  return tall ? x.t() : x;
}

}  // namespace ssa
