// How a comparison is printed: text for a terminal, Markdown for the documentation.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/comparison.h"

namespace ssa {

/// Text drops columns of secondary figures until it fits kTerminalWidth, where it can; Markdown has
/// all of them.
enum class TableStyle { kText, kMarkdown };

inline constexpr std::size_t kTerminalWidth = 100;

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

/// "-0.25 ± 0.31", or "×0.25 [0.18, 0.35]" of odds and of values that span decades.
std::string format_effect(const Measure& measure, const Effect& effect);

/// Whether the row counts among the verdicts.
bool is_judged(const ComparisonRow& row);

/// Rows that the experiment's `metrics` ask for, or all.
std::vector<ComparisonRow> rows_of_table(const std::vector<ComparisonRow>& rows);

/// "ssa: of 92 comparisons with softmax 3 better, 3 worse, …" and a line end.
std::string format_count(const VerdictCount& count);

/// Which score did better than softmax where, of experiments with at least two others: for every
/// score and metric of errors in how many variants it was lower and higher, "2 lower, 1 higher of
/// 6"; "" for others, and for text that would not fit.
std::string verdict_table(const std::vector<ComparisonRow>& rows, TableStyle style);

/// The text as lines of at most kTerminalWidth columns; its own line ends count as spaces.
std::string wrap(std::string_view text);

/// One table per variant, softmax and one other score to a line, steps and seeds on every line.
std::string format_table(const std::vector<ComparisonRow>& rows, TableStyle style);

/// One line an endpoint; "" where the file names none.
std::string format_endpoints(const std::vector<EndpointRow>& endpoints, TableStyle style);

/// The score parameters as one Markdown table, heads across; "" for no rows.
std::string markdown_score_parameters(const std::vector<ScoreParameterRow>& rows);

}  // namespace ssa
