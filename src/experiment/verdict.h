// What is said of a difference, and when nothing is.
#pragma once

#include <cstdint>
#include <string>

#include "experiment/effect.h"
#include "experiment/experiment.h"

namespace ssa {

/// No verdict from fewer seeds than this.
inline constexpr std::int64_t kVerdictSeeds = 3;
/// A row of fewer steps than this is called a smoke run.
inline constexpr std::int64_t kSmokeSteps = 1000;
/// Of an adjusted p.
inline constexpr double kSignificance = 0.05;

/// "smoke run, no verdict", "no verdict: …"; "" where there may be one, and without a difference.
std::string why_no_verdict(const Effect& effect, std::int64_t steps);

/// The largest difference on the scale that counts as none; 0 where the experiment names none.
double margin_of(const ExperimentConfig& settings, const Measure& measure);

/// "lower", "higher", "equivalent" or "not decided".
std::string verdict_of(const Effect& effect, double p_adjusted, double margin);

}  // namespace ssa
