// The parameters of one attention layer's scoring function: what is stored, and what follows from
// it.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "config/config.h"
#include "model/model.h"
#include "ssa/score_parametrisation.h"

namespace ssa {

/// The parameter's value for stored weights, differentiable: within its range whatever a formula
/// rounds to (least_value), with the formula's gradient. With parametrisation raw the weight
/// itself.
torch::Tensor parameter_value(Parametrisation how, const ParamInfo& parameter,
                              const torch::Tensor& stored);

/// The stored weight that gives `value`. Throws std::invalid_argument for a value outside the
/// range.
double stored_weight(Parametrisation how, const ParamInfo& parameter, double value);

/// Registers "score_NAME" (heads, or 1 if a layer shares them) with `owner` for every parameter of
/// the score: a parameter where it is trained, else a buffer. All start at the same value, so that
/// nothing is drawn for them.
class ScoreParameters {
 public:
  ScoreParameters(torch::nn::Module& owner, const ModelConfig& config);

  /// One tensor per parameter in the score's order, as ssa::attention takes them.
  std::vector<torch::Tensor> values() const;
  /// The same with names, without gradient.
  std::vector<ScoreParameterValues> named_values() const;
  /// Stores the weights that give these values: of each parameter one, or one a head.
  void set(const std::vector<std::vector<double>>& values) const;

 private:
  struct Entry {
    const ParamInfo* parameter;
    torch::Tensor stored;
  };
  Parametrisation how_;
  std::vector<Entry> entries_;
};

}  // namespace ssa
