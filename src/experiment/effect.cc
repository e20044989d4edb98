#include "experiment/effect.h"

#include <algorithm>
#include <cmath>

namespace ssa {
namespace {

double number_or_nan(const Json& values, const std::string& key) {
  const auto found = values.find(key);
  return found != values.end() && found->is_number() ? found->get<double>() : std::nan("");
}

/// Errors and chances.
std::pair<std::int64_t, std::int64_t> counts_of(const CellResult& result,
                                                const std::string& metric) {
  const Json& counts = result.counts.at(metric);
  return {counts.at(0).get<std::int64_t>(), counts.at(1).get<std::int64_t>()};
}

/// What counting alone leaves of a value's standard error.
double counting_error(const CellResult& result, const std::string& metric) {
  if (!result.counts.contains(metric)) return 0;
  const auto [errors, chances] = counts_of(result, metric);
  return std::sqrt(log_odds_variance(errors, chances));
}

double mean_on_scale(const CellResult& result, const std::vector<std::string>& metrics,
                     Scale scale) {
  double sum = 0;
  for (const std::string& metric : metrics) sum += value_on_scale(result, metric, scale);
  return sum / static_cast<double>(metrics.size());
}

/// Of a mean over metrics that err together.
double mean_counting_error(const CellResult& result, const std::vector<std::string>& metrics) {
  double sum = 0;
  for (const std::string& metric : metrics) sum += counting_error(result, metric);
  return sum / static_cast<double>(metrics.size());
}

}  // namespace

double Measure::back(double value) const {
  switch (scale) {
    case Scale::log_odds:
      return 1 / (1 + std::exp(-value));
    case Scale::log:
      return std::exp(value);
    case Scale::plain:
      break;
  }
  return value;
}

double Measure::back_effect(double value) const {
  return scale == Scale::plain ? value : std::exp(value);
}

Measure measure_of(const std::string& metric, const std::vector<const CellResult*>& results) {
  const MetricKind& kind = metric_kind(metric);
  const bool counted = std::ranges::all_of(results, [&](const CellResult* result) {
    return !result->metrics.contains(metric) || result->counts.contains(metric);
  });
  const Scale scale = kind.scale == Scale::log_odds && !counted ? Scale::plain : kind.scale;
  return {kind.better, scale, kind.unit};
}

double value_on_scale(const CellResult& result, const std::string& metric, Scale scale) {
  const double value = number_or_nan(result.metrics, metric);
  switch (scale) {
    case Scale::log_odds: {
      if (std::isnan(value)) return value;
      const auto [errors, chances] = counts_of(result, metric);
      return log_odds(errors, chances);
    }
    case Scale::log:
      return value > 0 ? std::log(value) : std::nan("");
    case Scale::plain:
      break;
  }
  return value;
}

Effect effect_of(const std::vector<ResultPair>& pairs, const std::vector<std::string>& metrics,
                 Scale scale) {
  std::vector<double> differences;
  double variance = 0;
  for (const auto& [score, softmax] : pairs) {
    differences.push_back(mean_on_scale(*score, metrics, scale) -
                          mean_on_scale(*softmax, metrics, scale));
    if (scale != Scale::log_odds) continue;
    for (const CellResult* result : {score, softmax}) {
      const double error = mean_counting_error(*result, metrics);
      variance += error * error;
    }
  }
  const auto count = static_cast<double>(pairs.size());
  return {paired_test(differences, pairs.empty() ? 0 : variance / (count * count)),
          sign_flip_p(differences)};
}

}  // namespace ssa
