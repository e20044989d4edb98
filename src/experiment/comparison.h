// The table of an experiment: for every variant and metric the scores side by side, over seeds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiment/results.h"
#include "experiment/statistics.h"

namespace ssa {

/// No verdict from fewer seeds than this.
inline constexpr std::int64_t kVerdictSeeds = 3;
/// A row of fewer in-context-learning steps than this is called a smoke run.
inline constexpr std::int64_t kSmokeSteps = 1000;

/// One metric of one variant under one score.
struct ComparisonRow {
  std::string variant, task, evaluation, metric, score;
  std::int64_t steps, batch, layers, heads, width, parameters;
  std::vector<std::int64_t> seeds;
  Estimate value;
  /// Score minus softmax, paired by seed; count 0 for softmax itself and where it was not run.
  Estimate difference;
  /// log(score / softmax), paired by seed, of metrics whose values span decades (relative and
  /// squared errors); count 0 for others. Where it is there, the verdict is its.
  Estimate log_ratio;
  /// "lower", "higher", "no difference measurable", or why there is no verdict; "" for softmax.
  std::string verdict;
  std::vector<std::pair<std::string, double>> baselines;  ///< e.g. {"constant", 0.5}
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

enum class TableStyle { kText, kMarkdown };

/// What a reader of the table must know.
inline constexpr std::string_view kTableNotes =
    "Values are means over seeds ± the half width of the 95 % interval (Student's t). difference "
    "is "
    "score minus softmax, paired by seed; of relative errors, which span decades, it is the ratio\n"
    "score / softmax of geometric means with its interval in brackets.\n"
    "lower / higher: that interval leaves out equality, as about one row in twenty does by chance "
    "alone.\n";

/// Those whose metric matches one of the patterns (as in file names: * and ?).
std::vector<ComparisonRow> matching(const std::vector<ComparisonRow>& rows,
                                    const std::vector<std::string>& patterns);

/// "Of 92 comparisons of errors: 3 lower, 3 higher, 86 no difference measurable." and a line end;
/// empty where none has a verdict. Attention and time are no errors.
std::string count_verdicts(const std::vector<ComparisonRow>& rows);

/// Which score did better than softmax where, of experiments with at least two others: for every
/// score and metric of errors in how many variants it was lower and higher, "2 lower, 1 higher of
/// 6"; "" for others.
std::string verdict_table(const std::vector<ComparisonRow>& rows, TableStyle style);

/// table.json (docs/formats.md).
Json to_json(const std::vector<ComparisonRow>& rows);

/// One table per variant, softmax and one other score to a line, steps and seeds on every line.
std::string format_table(const std::vector<ComparisonRow>& rows, TableStyle style);

/// The score parameters as one Markdown table, heads across; "" for no rows.
std::string markdown_score_parameters(const std::vector<ScoreParameterRow>& rows);

}  // namespace ssa
