// The comparison of an experiment: for every variant and metric the scores side by side, over
// seeds, and its primary endpoints.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "experiment/effect.h"
#include "experiment/results.h"

namespace ssa {

/// What part a row takes in counts of verdicts.
enum class RowRole {
  counted,
  control,  ///< nothing is shifted: the unshifted sequences, what stands before a huge value, …
  repeat,   ///< of another row, exactly: σ = 1 is no shift
  description,  ///< neither direction is better: attention, time
};

/// One metric of one variant under one score. Differences are the score minus softmax,
/// paired by seed, on the metric's scale.
struct ComparisonRow {
  std::string variant, task, evaluation, metric, score;
  std::int64_t steps, batch, layers, heads, width, parameters;
  std::vector<std::int64_t> seeds;
  Estimate value;             ///< arithmetic, whatever the scale
  Estimate plain_difference;  ///< likewise; the verdict is that of `effect`
  std::vector<std::pair<std::string, double>> baselines;  ///< e.g. {"constant", 0.5}
  Measure measure;
  Estimate centre;  ///< of the score itself, on the scale
  Effect effect;    ///< test.difference.count is 0 for softmax itself and where it was not run
  RowRole role = RowRole::counted;
  std::string repeats = {};  ///< the metric, of a repeat
  bool in_table = true;      ///< whether experiment.metrics asks for it
  double p_adjusted = 0;     ///< within its table (comparison.cc); NaN for repeats
  /// "lower", "higher" (p_adjusted below 0.05), "equivalent" (the interval lies within the
  /// margin), "not decided", or why there is no verdict; "" for softmax.
  std::string verdict = {};
};

/// Rows in the order of the experiment's variants, then of metrics, then of scores.
std::vector<ComparisonRow> compare(const Experiment& experiment,
                                   const std::vector<CellResult>& results);

/// Where one parameter of a score has gone in one layer.
struct ScoreParameterRow {
  std::string variant, score, parameter;
  std::int64_t layer;  ///< from 0
  std::vector<std::int64_t> seeds;
  std::vector<Estimate> heads;  ///< over seeds; a single one where the heads share the value
};

/// Every score's parameters after training, trained or not, in the order of variants, scores,
/// parameters and layers.
std::vector<ScoreParameterRow> final_score_parameters(const Experiment& experiment,
                                                      const std::vector<CellResult>& results);

/// A primary endpoint under one score.
struct EndpointRow {
  EndpointConfig endpoint;
  std::string score;
  std::int64_t planned = 0;              ///< seeds
  std::vector<std::int64_t> seeds = {};  ///< that are finished for both scores
  Measure measure = {};
  Effect effect = {};
  double p_adjusted = 0;     ///< Holm over all endpoints of the file
  std::string verdict = {};  ///< as of a ComparisonRow, or "not run"
};

std::vector<EndpointRow> compare_endpoints(const Experiment& experiment,
                                           const std::vector<CellResult>& results);

/// How the comparisons of errors in the table came out.
struct VerdictCount {
  std::string score;
  int comparisons = 0, better = 0, worse = 0, equivalent = 0, not_decided = 0;
};

/// For every score, then "all" if there are several. Counted rows of the table alone.
std::vector<VerdictCount> count_verdicts(const std::vector<ComparisonRow>& rows);

/// table.json and verdicts.json (docs/formats.md).
Json to_json(const std::vector<ComparisonRow>& rows);
Json verdicts_json(const Experiment& experiment, std::int64_t finished_cells,
                   const std::vector<ComparisonRow>& rows,
                   const std::vector<EndpointRow>& endpoints);

}  // namespace ssa
