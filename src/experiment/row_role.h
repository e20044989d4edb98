// Which metrics are comparisons of their own: not those of unshifted inputs, not those that say
// again what another one says.
#pragma once

#include <string>
#include <vector>

#include "experiment/comparison.h"

namespace ssa {

struct MetricRole {
  RowRole role = RowRole::counted;
  std::string repeats = {};  ///< the metric that a repeat repeats
};

/// Of a metric in the results of one variant and evaluation. A metric repeats another one where it
/// is the same by construction (σ = 1 and no shift, a mean of one paradigm) and has the same value
/// in every result.
MetricRole role_of(const std::string& metric, const std::vector<const CellResult*>& results);

}  // namespace ssa
