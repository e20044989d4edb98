#include "model/score_parameters.h"

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ssa/check.h"

namespace ssa {
namespace {

torch::Tensor formula(Parametrisation how, const ParamInfo& parameter,
                      const torch::Tensor& stored) {
  switch (how) {
    case Parametrisation::softplus: {
      const torch::Tensor above = torch::softplus(stored);
      return parameter.module_lower == 0 ? above : above + parameter.module_lower;
    }
    case Parametrisation::exp: {
      // e^w of a larger weight is infinite, and its gradient no number.
      const double most = stored.scalar_type() == torch::kFloat64 ? 709.0 : 88.0;
      return stored.clamp_max(most).exp();
    }
    case Parametrisation::raw:
      break;
  }
  return stored;
}

/// `values` with those that were rounded out of the range moved to its edge.
template <class Float>
torch::Tensor kept_inside(Parametrisation how, const ParamInfo& parameter,
                          const torch::Tensor& values) {
  const torch::Tensor plain = values.detach();
  const torch::Tensor inside =
      plain.clamp(least_value<Float>(parameter, how), std::numeric_limits<Float>::max());
  // A NaN stays one. The difference has no gradient, so that a weight at the edge can come back.
  // Other devices are not asked, for that would wait for them.
  return plain.is_cpu() && torch::equal(inside, plain) ? values : values + (inside - plain);
}

}  // namespace

torch::Tensor parameter_value(Parametrisation how, const ParamInfo& parameter,
                              const torch::Tensor& stored) {
  if (stored_as_it_is(parameter, how)) return stored;
  const torch::Tensor values = formula(how, parameter, stored);
  return values.scalar_type() == torch::kFloat64 ? kept_inside<double>(how, parameter, values)
                                                 : kept_inside<float>(how, parameter, values);
}

double stored_weight(Parametrisation how, const ParamInfo& parameter, double value) {
  SSA_CHECK(allows(parameter, how, value), "score parameter " << parameter.name << " = " << value
                                                              << " must be above "
                                                              << lower_bound(parameter, how));
  if (stored_as_it_is(parameter, how)) return value;
  switch (how) {
    case Parametrisation::softplus: {
      const double above = value - parameter.module_lower;
      return above + std::log(-std::expm1(-above));  // log(e^above − 1) without overflow
    }
    case Parametrisation::exp:
      return std::log(value);
    case Parametrisation::raw:
      break;
  }
  return value;
}

ScoreParameters::ScoreParameters(torch::nn::Module& owner, const ModelConfig& config)
    : how_(config.parametrisation) {
  const std::vector<double> initial = config.initial_score_values();
  const std::int64_t count = config.score_share == ScoreShare::layer ? 1 : config.heads;
  const auto parameters = find_score(config.score).params;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParamInfo& parameter = parameters[i];
    const std::string name = "score_" + std::string(parameter.name);
    const torch::Tensor stored =
        torch::full({count}, stored_weight(how_, parameter, initial[i]), torch::kFloat32);
    entries_.push_back({&parameter, config.trains(parameter)
                                        ? owner.register_parameter(name, stored)
                                        : owner.register_buffer(name, stored)});
  }
}

std::vector<torch::Tensor> ScoreParameters::values() const {
  std::vector<torch::Tensor> out;
  for (const Entry& entry : entries_) {
    out.push_back(parameter_value(how_, *entry.parameter, entry.stored));
  }
  return out;
}

std::vector<ScoreParameterValues> ScoreParameters::named_values() const {
  std::vector<ScoreParameterValues> out;
  for (const Entry& entry : entries_) {
    out.push_back({std::string(entry.parameter->name),
                   parameter_value(how_, *entry.parameter, entry.stored.detach()),
                   entry.parameter});
  }
  return out;
}

void ScoreParameters::set(const std::vector<std::vector<double>>& values) const {
  SSA_CHECK(values.size() == entries_.size(), "a score with " << entries_.size()
                                                              << " parameters cannot take "
                                                              << values.size() << " values");
  const torch::NoGradGuard no_gradient;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    std::vector<float> weights;
    for (const double value : values[i]) {
      weights.push_back(static_cast<float>(stored_weight(how_, *entries_[i].parameter, value)));
    }
    torch::Tensor stored = entries_[i].stored;
    stored.copy_(torch::tensor(weights));  // one stands for all heads
  }
}

}  // namespace ssa
