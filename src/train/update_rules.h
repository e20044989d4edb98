// How an optimizer changes parameters: one rule each, with what it keeps of earlier gradients.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace ssa {

/// A parameter that a rule changes in one step.
struct UpdatedParameter {
  torch::Tensor parameter, gradient;
  std::vector<torch::Tensor> moments;  ///< of the parameter's shape, one for each of the rule's
  std::span<const std::int64_t> matrix_columns;  ///< Model::matrix_columns
  double learning_rate;
  double weight_decay;
};

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  /// Names of what it keeps, as trainer.safetensors has them.
  virtual std::span<const std::string_view> moments() const = 0;
  /// One update; `step` counts from 1.
  virtual void update(std::span<const UpdatedParameter> parameters, const TrainConfig& config,
                      std::int64_t step) const = 0;
};

/// The rule for a parameter; `matrix`: whether it maps hidden states (Model::matrix_columns).
const UpdateRule& update_rule(OptimizerKind optimizer, bool matrix);

/// The nearest matrix with orthonormal rows or columns, roughly: singular values come near 1 (0.7
/// to 1.2), by five Newton-Schulz steps of the fifth degree with the coefficients of Jordan et al.
/// 2024.
torch::Tensor orthogonalized(const torch::Tensor& matrix);

}  // namespace ssa
