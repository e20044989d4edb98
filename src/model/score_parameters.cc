#include "model/score_parameters.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ssa/check.h"

namespace ssa {

Parametrisation parametrisation_named(const std::string& name) {
  if (name == "softplus") return Parametrisation::softplus;
  if (name == "exp") return Parametrisation::exp;
  SSA_CHECK(name == "raw", "unknown parametrisation \"" << name << "\": softplus, exp or raw");
  return Parametrisation::raw;
}

namespace {

/// A value that follows from a very negative weight rounds onto the bound, which is outside of the
/// interval: there it is the next number inside.
torch::Tensor strictly_above(double bound, const torch::Tensor& value) {
  const double next =
      value.scalar_type() == torch::kFloat64
          ? std::nextafter(bound, std::numeric_limits<double>::infinity())
          : std::nextafter(static_cast<float>(bound), std::numeric_limits<float>::infinity());
  // Kernels count in normal numbers.
  constexpr double kLeast = std::numeric_limits<float>::min();
  return value.clamp_min(bound >= 0 ? std::max(next, kLeast) : next);
}

}  // namespace

torch::Tensor parameter_value(Parametrisation how, const ParamInfo& parameter,
                              const torch::Tensor& stored) {
  if (parameter.module_lower == kAnyNumber) return stored;
  switch (how) {
    case Parametrisation::softplus: {
      const torch::Tensor above = torch::softplus(stored);
      return strictly_above(std::max(parameter.module_lower, parameter.above),
                            parameter.module_lower == 0 ? above : above + parameter.module_lower);
    }
    case Parametrisation::exp:
      return strictly_above(parameter.above, stored.exp());
    case Parametrisation::raw:
      break;
  }
  return stored;
}

double stored_weight(Parametrisation how, const ParamInfo& parameter, double value) {
  if (parameter.module_lower == kAnyNumber) return value;
  switch (how) {
    case Parametrisation::softplus: {
      const double above = value - parameter.module_lower;
      SSA_CHECK(above > 0, "score parameter " << parameter.name << " = " << value
                                              << " must be above " << parameter.module_lower);
      return above + std::log(-std::expm1(-above));  // log(e^above − 1) without overflow
    }
    case Parametrisation::exp:
      SSA_CHECK(value > 0,
                "score parameter " << parameter.name << " = " << value << " must be above 0");
      return std::log(value);
    case Parametrisation::raw:
      break;
  }
  return value;
}

ScoreParameters::ScoreParameters(torch::nn::Module& owner, const ModelConfig& config)
    : how_(parametrisation_named(config.parametrisation)) {
  const std::vector<double> initial = config.initial_score_values();
  const std::int64_t count = config.score_share == "layer" ? 1 : config.heads;
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
                   parameter_value(how_, *entry.parameter, entry.stored.detach())});
  }
  return out;
}

}  // namespace ssa
