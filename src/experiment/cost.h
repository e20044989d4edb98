// What an experiment costs on this machine, from a few steps of each kind of cell.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiment/runner.h"

namespace ssa {

/// Steps that a cell of each variant and score is tried for.
inline constexpr std::int64_t kCostSteps = 20;

struct CellCost {
  std::string variant, score;
  std::int64_t cells = 0;   ///< of that variant and score that are not finished
  std::int64_t steps = 0;   ///< of each
  double milliseconds = 0;  ///< a step, the mean of the last half of kCostSteps
  double hours() const { return 1e-3 * milliseconds * static_cast<double>(steps * cells) / 3600; }
};

/// Trains the first unfinished cell of every variant and score for kCostSteps in a folder that is
/// removed again, one at a time; in-context tasks at their full length. Evaluations come on top.
/// Throws std::runtime_error naming the log where a cell fails.
std::vector<CellCost> measure_cost(const std::vector<Work>& work, const CellRunner& runner);

}  // namespace ssa
