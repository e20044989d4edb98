#include "experiment/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace ssa {
namespace {

using BySeed = std::map<std::int64_t, const CellResult*>;
/// Results of one variant and evaluation, by score and seed.
using Group = std::map<std::string, BySeed>;

Group results_of(const Experiment& experiment, const std::vector<CellResult>& results,
                 const std::string& variant, const std::string& evaluation) {
  Group group;
  for (const CellResult& result : results) {
    const bool wanted = result.variant == variant && result.evaluation == evaluation;
    if (wanted && find_cell(experiment, variant, result.score, result.seed) != nullptr)
      group[result.score][result.seed] = &result;
  }
  return group;
}

double number_or_nan(const Json& value) {
  return value.is_number() ? value.get<double>() : std::nan("");
}

double metric_value(const CellResult& result, const std::string& metric) {
  return number_or_nan(result.metrics.at(metric));
}

/// (score, softmax) for the seeds that both have.
std::vector<std::pair<double, double>> paired_values(const Group& group, const std::string& score,
                                                     const std::string& metric) {
  std::vector<std::pair<double, double>> pairs;
  const auto baseline = group.find(std::string(kBaselineScore));
  if (baseline == group.end() || score == kBaselineScore) return pairs;
  for (const auto& [seed, result] : group.at(score)) {
    const auto other = baseline->second.find(seed);
    if (other == baseline->second.end() || !result->metrics.contains(metric) ||
        !other->second->metrics.contains(metric)) {
      continue;
    }
    pairs.emplace_back(metric_value(*result, metric), metric_value(*other->second, metric));
  }
  return pairs;
}

std::vector<double> differences(const std::vector<std::pair<double, double>>& pairs) {
  std::vector<double> values;
  for (const auto& [score, softmax] : pairs) values.push_back(score - softmax);
  return values;
}

/// Empty where the metric is a share, or a value is not above 0.
std::vector<double> log_ratios(const std::vector<std::pair<double, double>>& pairs,
                               const std::string& metric) {
  std::vector<double> values;
  if (metric.find("relative-error") == std::string::npos &&
      metric.find("squared-error") == std::string::npos) {
    return values;
  }
  for (const auto& [score, softmax] : pairs) {
    if (!(score > 0 && softmax > 0)) return {};
    values.push_back(std::log(score / softmax));
  }
  return values;
}

std::string verdict(const Estimate& difference, std::int64_t steps) {
  if (difference.count == 0) return "";
  if (steps < kSmokeSteps) return "smoke run, no verdict";
  if (difference.count < kVerdictSeeds) return "no verdict: too few seeds";
  if (!std::isfinite(difference.mean)) return "no verdict: not finite";
  if (std::abs(difference.mean) <= difference.half_width) return "no difference measurable";
  return difference.mean < 0 ? "lower" : "higher";
}

std::vector<std::pair<std::string, double>> baseline_values(const CellResult& result,
                                                            const std::string& metric) {
  std::vector<std::pair<std::string, double>> values;
  for (const auto& [name, metrics] : result.baselines.items()) {
    if (!metrics.contains(metric)) continue;
    values.emplace_back(name, number_or_nan(metrics.at(metric)));
  }
  return values;
}

ComparisonRow make_row(const Group& group, const std::string& score, const std::string& metric) {
  std::vector<double> values;
  std::vector<std::int64_t> seeds;
  for (const auto& [seed, result] : group.at(score)) {
    if (!result->metrics.contains(metric)) continue;
    values.push_back(metric_value(*result, metric));
    seeds.push_back(seed);
  }
  const CellResult& first = *group.at(score).begin()->second;
  const auto pairs = paired_values(group, score, metric);
  ComparisonRow row{first.variant,
                    first.task,
                    first.evaluation,
                    metric,
                    score,
                    first.steps,
                    first.batch,
                    first.layers,
                    first.heads,
                    first.width,
                    first.parameters,
                    std::move(seeds),
                    estimate(values),
                    estimate(differences(pairs)),
                    estimate(log_ratios(pairs, metric)),
                    "",
                    baseline_values(first, metric)};
  row.verdict = verdict(row.log_ratio.count > 0 ? row.log_ratio : row.difference, row.steps);
  return row;
}

/// Null where the result has no such parameter, layer or head.
Json parameter_value(const CellResult& result, std::size_t layer, const std::string& name,
                     std::size_t head) {
  const Json& layers = result.score_parameters;
  if (layer >= layers.size() || !layers[layer].contains(name)) return nullptr;
  const Json& heads = layers[layer].at(name);
  return head < heads.size() ? heads[head] : Json();
}

/// Rows of one score: its parameters in order, each layer by layer.
std::vector<ScoreParameterRow> parameter_rows(const BySeed& results) {
  std::vector<ScoreParameterRow> rows;
  // Seeds whose lines an earlier version wrote say nothing.
  BySeed told = results;
  std::erase_if(told, [](const auto& entry) { return entry.second->score_parameters.empty(); });
  if (told.empty()) return rows;
  const CellResult& first = *told.begin()->second;
  for (const auto& [name, shape] : first.score_parameters.front().items()) {
    for (std::size_t layer = 0; layer < first.score_parameters.size(); ++layer) {
      ScoreParameterRow& row = rows.emplace_back(ScoreParameterRow{
          first.variant, first.score, name, static_cast<std::int64_t>(layer), {}, {}});
      for (const auto& [seed, result] : told) row.seeds.push_back(seed);
      for (std::size_t head = 0; head < shape.size(); ++head) {
        std::vector<double> values;
        for (const auto& [seed, result] : told) {
          values.push_back(number_or_nan(parameter_value(*result, layer, name, head)));
        }
        row.heads.push_back(estimate(values));
      }
    }
  }
  return rows;
}

/// Metrics of a group in the order in which its evaluations list them.
std::vector<std::string> metric_names(const Group& group) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const auto& [score, seeds] : group) {
    for (const auto& [seed, result] : seeds) {
      for (const auto& [metric, value] : result->metrics.items()) {
        if (seen.insert(metric).second) names.push_back(metric);
      }
    }
  }
  return names;
}

/// Whether any seed of the score was measured so: a score may lack what another has.
bool has_metric(const Group& group, const std::string& score, const std::string& metric) {
  const auto found = group.find(score);
  return found != group.end() && std::ranges::any_of(found->second, [&](const auto& seed) {
           return seed.second->metrics.contains(metric);
         });
}

/// The scores of a variant in the order of its cells.
std::vector<std::string> scores_of(const Experiment& experiment, const std::string& variant) {
  std::vector<std::string> scores;
  for (const Cell& cell : experiment.cells) {
    const bool known = std::ranges::find(scores, cell.score) != scores.end();
    if (cell.variant == variant && !known) scores.push_back(cell.score);
  }
  return scores;
}

}  // namespace

std::vector<ComparisonRow> compare(const Experiment& experiment,
                                   const std::vector<CellResult>& results) {
  std::vector<ComparisonRow> rows;
  for (const std::string& variant : experiment.variants) {
    for (const std::string& evaluation : experiment.settings.evaluations) {
      const Group group = results_of(experiment, results, variant, evaluation);
      for (const std::string& metric : metric_names(group)) {
        for (const std::string& score : scores_of(experiment, variant)) {
          if (has_metric(group, score, metric)) rows.push_back(make_row(group, score, metric));
        }
      }
    }
  }
  return rows;
}

std::vector<ScoreParameterRow> final_score_parameters(const Experiment& experiment,
                                                      const std::vector<CellResult>& results) {
  std::vector<ScoreParameterRow> rows;
  for (const std::string& variant : experiment.variants) {
    // Every evaluation of a cell says the same.
    const Group group =
        results_of(experiment, results, variant, experiment.settings.evaluations.front());
    for (const std::string& score : scores_of(experiment, variant)) {
      if (!group.contains(score)) continue;
      for (ScoreParameterRow& row : parameter_rows(group.at(score))) rows.push_back(std::move(row));
    }
  }
  return rows;
}

Json to_json(const std::vector<ComparisonRow>& rows) {
  Json out = Json::array();
  // nlohmann/json writes a number that is not finite as null.
  for (const ComparisonRow& row : rows) {
    const bool paired = row.difference.count > 0;
    const auto ratio = [&](int side) {
      const Estimate& log = row.log_ratio;
      return log.count > 0 ? Json(std::exp(log.mean + side * (side == 0 ? 0 : log.half_width)))
                           : Json();
    };
    Json baselines = Json::object();
    for (const auto& [name, value] : row.baselines) baselines[name] = value;
    out.push_back({{"variant", row.variant},
                   {"metric", row.metric},
                   {"score", row.score},
                   {"task", row.task},
                   {"evaluation", row.evaluation},
                   {"seeds", row.seeds},
                   {"steps", row.steps},
                   {"batch", row.batch},
                   {"layers", row.layers},
                   {"heads", row.heads},
                   {"width", row.width},
                   {"parameters", row.parameters},
                   {"mean", row.value.mean},
                   {"interval", row.value.half_width},
                   {"difference", paired ? Json(row.difference.mean) : Json()},
                   {"difference_interval", paired ? Json(row.difference.half_width) : Json()},
                   {"ratio", ratio(0)},
                   {"ratio_low", ratio(-1)},
                   {"ratio_high", ratio(+1)},
                   {"verdict", row.verdict},
                   {"baselines", baselines}});
  }
  return out;
}

}  // namespace ssa
