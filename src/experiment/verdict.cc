#include "experiment/verdict.h"

#include <cmath>

namespace ssa {

std::string why_no_verdict(const Effect& effect, std::int64_t steps) {
  const Estimate& difference = effect.test.difference;
  if (difference.count == 0) return "";
  if (steps < kSmokeSteps) return "smoke run, no verdict";
  if (difference.count < kVerdictSeeds) return "no verdict: too few seeds";
  if (!std::isfinite(difference.mean)) return "no verdict: not finite";
  return "";
}

double margin_of(const ExperimentConfig& settings, const Measure& measure) {
  if (measure.unit == "percent") return settings.percent_margin;
  const bool logarithm = measure.scale != Scale::plain || measure.unit == "nats";
  return logarithm && settings.margin > 1 ? std::log(settings.margin) : 0;
}

std::string verdict_of(const Effect& effect, double p_adjusted, double margin) {
  const Estimate& difference = effect.test.difference;
  if (p_adjusted < kSignificance) return difference.mean < 0 ? "lower" : "higher";
  const double farthest = std::abs(difference.mean) + difference.half_width;
  return margin > 0 && farthest <= margin ? "equivalent" : "not decided";
}

}  // namespace ssa
