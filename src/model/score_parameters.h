// The parameters of one attention layer's scoring function: what is stored, and what follows from
// it.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "config/config.h"
#include "model/model.h"
#include "ssa/score_info.h"

namespace ssa {

/// How a stored weight w gives a parameter's value. A parameter that may be any number is stored as
/// it is.
enum class Parametrisation {
  softplus,  ///< module_lower + log(1 + eʷ): SSA keeps n > 1 and b > 0
  exp,       ///< eʷ
  raw,       ///< w
};

/// "softplus", "exp" or "raw"; throws std::invalid_argument for any other name.
Parametrisation parametrisation_named(const std::string& name);

/// The parameter's value for stored weights, differentiable. With softplus and exp it lies in the
/// parameter's open interval for every finite weight.
torch::Tensor parameter_value(Parametrisation how, const ParamInfo& parameter,
                              const torch::Tensor& stored);

/// The stored weight that gives `value`.
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

 private:
  struct Entry {
    const ParamInfo* parameter;
    torch::Tensor stored;
  };
  Parametrisation how_;
  std::vector<Entry> entries_;
};

}  // namespace ssa
