// How a comparison is printed: text for a terminal, Markdown for the documentation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiment/comparison.h"

namespace ssa {

enum class TableStyle { kText, kMarkdown };

/// What a reader of the table must know.
inline constexpr std::string_view kTableNotes =
    "Values are means over seeds with their 95 % interval (Student's t), taken on the scale of the "
    "comparison and shown on the natural one: error\nrates as log-odds of their counts, (k + ½)/(N "
    "− "
    "k + ½), relative errors and perplexities as logarithms, accuracies and losses as they\nare. "
    "difference: the score against softmax, paired by seed: a ratio of odds, a ratio, or a "
    "difference. p: paired t-test; adjusted:\nBenjamini and Hochberg within the table (one variant "
    "and "
    "evaluation; rows without a shift and rows that only describe apart); flips:\nexact sign-flip "
    "test "
    "over seeds. lower / higher: adjusted p below 0.05. equivalent: the interval lies within the "
    "margin. not decided:\nneither; detectable is the difference that this many seeds with this "
    "spread "
    "show with probability 0.8.\n";

/// Rows that the experiment's `metrics` ask for, or all.
std::vector<ComparisonRow> rows_of_table(const std::vector<ComparisonRow>& rows);

/// "ssa: of 92 comparisons of errors under shift 3 better, 3 worse, …" a score, and a line end
/// each; empty where none has a verdict.
std::string format_counts(const std::vector<VerdictCount>& counts);

/// Which score did better than softmax where, of experiments with at least two others: for every
/// score and metric of errors in how many variants it was lower and higher, "2 lower, 1 higher of
/// 6"; "" for others.
std::string verdict_table(const std::vector<ComparisonRow>& rows, TableStyle style);

/// One table per variant, softmax and one other score to a line, steps and seeds on every line.
std::string format_table(const std::vector<ComparisonRow>& rows, TableStyle style);

/// One line an endpoint; "" where the file names none.
std::string format_endpoints(const std::vector<EndpointRow>& endpoints, TableStyle style);

/// The score parameters as one Markdown table, heads across; "" for no rows.
std::string markdown_score_parameters(const std::vector<ScoreParameterRow>& rows);

}  // namespace ssa
