#include "experiment/comparison.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "experiment/row_role.h"
#include "experiment/verdict.h"

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
std::vector<ResultPair> paired_results(const Group& group, const std::string& score,
                                       const std::string& metric) {
  std::vector<ResultPair> pairs;
  const auto baseline = group.find(std::string(kBaselineScore));
  if (baseline == group.end() || score == kBaselineScore) return pairs;
  for (const auto& [seed, result] : group.at(score)) {
    const auto other = baseline->second.find(seed);
    if (other == baseline->second.end() || !other->second->metrics.contains(metric)) continue;
    pairs.emplace_back(result, other->second);
  }
  return pairs;
}

/// Every result of a group.
std::vector<const CellResult*> all_results(const Group& group) {
  std::vector<const CellResult*> all;
  for (const auto& [score, seeds] : group) {
    for (const auto& [seed, result] : seeds) all.push_back(result);
  }
  return all;
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

ComparisonRow make_row(const Group& group, const std::string& score, const std::string& metric,
                       const Measure& measure) {
  std::vector<double> values, on_scale;
  std::vector<std::int64_t> seeds;
  for (const auto& [seed, result] : group.at(score)) {
    if (!result->metrics.contains(metric)) continue;
    values.push_back(metric_value(*result, metric));
    on_scale.push_back(value_on_scale(*result, metric, measure.scale));
    seeds.push_back(seed);
  }
  const CellResult& first = *group.at(score).begin()->second;
  const auto pairs = paired_results(group, score, metric);
  return {.variant = first.variant,
          .task = first.task,
          .evaluation = first.evaluation,
          .metric = metric,
          .score = score,
          .steps = first.steps,
          .batch = first.batch,
          .layers = first.layers,
          .heads = first.heads,
          .width = first.width,
          .parameters = first.parameters,
          .seeds = std::move(seeds),
          .value = estimate(values),
          .plain_difference = effect_of(pairs, {metric}, Scale::plain).test.difference,
          .baselines = baseline_values(first, metric),
          .measure = measure,
          .centre = estimate(on_scale),
          .effect = effect_of(pairs, {metric}, measure.scale)};
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
          values.push_back(number_or_nan(result->score_parameters.at(layer).at(name).at(head)));
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

/// The scores of a variant in the order of its cells.
std::vector<std::string> scores_of(const Experiment& experiment, const std::string& variant) {
  std::vector<std::string> scores;
  for (const Cell& cell : experiment.cells) {
    const bool known = std::ranges::find(scores, cell.score) != scores.end();
    if (cell.variant == variant && !known) scores.push_back(cell.score);
  }
  return scores;
}

bool matches(const std::string& metric, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), metric.c_str(), 0) == 0;
  });
}

bool has_verdict(const ComparisonRow& row) {
  return row.effect.test.difference.count > 0 && why_no_verdict(row.effect, row.steps).empty();
}

/// Benjamini and Hochberg within each table: rows of one variant and evaluation that have the same
/// role, those that the experiment shows and others apart.
void adjust(std::vector<ComparisonRow>& rows) {
  using Family = std::tuple<std::string, std::string, RowRole, bool>;
  std::map<Family, std::vector<ComparisonRow*>> families;
  for (ComparisonRow& row : rows) {
    row.p_adjusted = std::nan("");
    if (row.role == RowRole::repeat || !has_verdict(row)) continue;
    families[{row.variant, row.evaluation, row.role, row.in_table}].push_back(&row);
  }
  for (auto& [key, family] : families) {
    std::vector<double> p;
    for (const ComparisonRow* row : family) p.push_back(row->effect.test.p);
    const std::vector<double> adjusted = benjamini_hochberg(p);
    for (std::size_t i = 0; i < family.size(); ++i) family[i]->p_adjusted = adjusted[i];
  }
}

std::string row_verdict(const ComparisonRow& row, const ExperimentConfig& settings) {
  const std::string none = why_no_verdict(row.effect, row.steps);
  if (row.effect.test.difference.count == 0 || !none.empty()) return none;
  if (row.role == RowRole::repeat) return "repeats " + row.repeats;
  return verdict_of(row.effect, row.p_adjusted, margin_of(settings, row.measure));
}

}  // namespace

std::vector<ComparisonRow> compare(const Experiment& experiment,
                                   const std::vector<CellResult>& results) {
  std::vector<ComparisonRow> rows;
  for (const std::string& variant : experiment.variants) {
    for (const std::string& evaluation : experiment.settings.evaluations) {
      const Group group = results_of(experiment, results, variant, evaluation);
      const std::vector<const CellResult*> all = all_results(group);
      for (const std::string& metric : metric_names(group)) {
        const Measure measure = measure_of(metric, all);
        const MetricRole role = role_of(metric, all);
        for (const std::string& score : scores_of(experiment, variant)) {
          if (!group.contains(score)) continue;
          ComparisonRow& row = rows.emplace_back(make_row(group, score, metric, measure));
          row.role = role.role;
          row.repeats = role.repeats;
          row.in_table = matches(metric, experiment.settings.metrics);
        }
      }
    }
  }
  adjust(rows);
  for (ComparisonRow& row : rows) row.verdict = row_verdict(row, experiment.settings);
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

}  // namespace ssa
