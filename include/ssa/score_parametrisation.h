// How a trained weight becomes the value of a scoring function's parameter, and which values it can
// take. Configs, models and trainers ask here.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "ssa/score_info.h"

namespace ssa {

/// How a stored weight w gives a parameter's value. A parameter that may be any number is stored as
/// it is.
enum class Parametrisation {
  softplus,  ///< module_lower + log(1 + eʷ): SSA keeps n > 1 and b > 0
  exp,       ///< eʷ
  raw,       ///< w
};

/// Whether the weight is the value, whatever the parametrisation.
inline bool stored_as_it_is(const ParamInfo& parameter, Parametrisation how) {
  return how == Parametrisation::raw || parameter.module_lower == kAnyNumber;
}

/// The values of a module's parameter are finite and above this.
inline double lower_bound(const ParamInfo& parameter, Parametrisation how) {
  if (how == Parametrisation::softplus) return std::max(parameter.above, parameter.module_lower);
  return parameter.above;
}

/// Whether a module can hold that value.
inline bool allows(const ParamInfo& parameter, Parametrisation how, double value) {
  return std::isfinite(value) && value > lower_bound(parameter, how);
}

/// The least value of type Float that lies above the bound. A formula of the weight may round onto
/// the bound itself (1 + log(1 + eʷ) is 1 in float32 for w < −16.7), which the score is not defined
/// for; values are therefore kept from here on.
template <class Float>
Float least_value(const ParamInfo& parameter, Parametrisation how) {
  const auto bound = static_cast<Float>(lower_bound(parameter, how));
  // The least normal number: 1/b of a smaller one is infinite.
  if (bound == 0) return std::numeric_limits<Float>::min();
  return std::nextafter(bound, std::numeric_limits<Float>::infinity());
}

}  // namespace ssa
