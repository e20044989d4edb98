#include "experiment/table_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "config/counted.h"

namespace ssa {
namespace {

using Line = std::vector<std::string>;

/// Decimals that show two significant digits of `half_width`.
int decimals(double half_width) {
  return std::clamp(1 - static_cast<int>(std::floor(std::log10(half_width))), 0, 6);
}

std::string format_estimate(const Estimate& value, bool with_sign) {
  if (!std::isfinite(value.mean)) return "not finite";
  const std::string sign = with_sign && value.mean >= 0 ? "+" : "";
  if (!std::isfinite(value.half_width)) return fmt::format("{}{:.4g}", sign, value.mean);
  // Equal values over seeds leave a width of rounding errors.
  if (value.half_width <= 1e-12 * std::abs(value.mean)) {
    return fmt::format("{}{:.4g} ± 0", sign, value.mean);
  }
  if (std::max(std::abs(value.mean), value.half_width) >= 1e7) {
    return fmt::format("{}{:.2e} ± {:.1e}", sign, value.mean, value.half_width);
  }
  const int digits = decimals(value.half_width);
  return fmt::format("{}{:.{}f} ± {:.{}f}", sign, value.mean, digits, value.half_width, digits);
}

/// "1-5" or "1,3".
std::string format_seeds(const std::vector<std::int64_t>& seeds) {
  const bool run = seeds.size() > 1 &&
                   seeds.back() - seeds.front() + 1 == static_cast<std::int64_t>(seeds.size());
  return run ? fmt::format("{}-{}", seeds.front(), seeds.back())
             : fmt::format("{}", fmt::join(seeds, ","));
}

/// Columns a reader sees: UTF-8 continuation bytes take none.
std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string join_text(const std::vector<Line>& lines) {
  std::vector<std::size_t> widths(lines.front().size());
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(line[i]));
    }
  }
  std::string out;
  for (const Line& line : lines) {
    std::string row = " ";
    for (std::size_t i = 0; i < line.size(); ++i) {
      row += " " + line[i] + std::string(widths[i] - display_width(line[i]) + 1, ' ');
    }
    row.erase(row.find_last_not_of(' ') + 1);
    out += row + "\n";
  }
  return out;
}

std::string join_markdown(const std::vector<Line>& lines) {
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    out += fmt::format("| {} |\n", fmt::join(lines[i], " | "));
    if (i > 0) continue;
    for (std::size_t column = 0; column < lines[i].size(); ++column) out += "|---";
    out += "|\n";
  }
  return out;
}

/// "0.25 [0.1, 0.5]" of values that were averaged on a scale, "65.8 ± 1.2" of plain ones.
std::string format_centre(const ComparisonRow& row) {
  const Estimate& centre = row.centre;
  const Measure& measure = row.measure;
  if (measure.scale == Scale::plain || !std::isfinite(centre.mean)) {
    return format_estimate(centre, false);
  }
  const std::string value = fmt::format("{:.3g}", measure.back(centre.mean));
  if (!std::isfinite(centre.half_width)) return value;
  return fmt::format("{} [{:.3g}, {:.3g}]", value, measure.back(centre.mean - centre.half_width),
                     measure.back(centre.mean + centre.half_width));
}

/// What softmax reached in that metric; "" where it was not run.
std::string baseline_estimate(std::span<const ComparisonRow> rows, const std::string& metric) {
  const auto found = std::ranges::find_if(rows, [&](const ComparisonRow& row) {
    return row.score == kBaselineScore && row.metric == metric;
  });
  return found == rows.end() ? "" : format_centre(*found);
}

/// "×/÷ 2.1", "± 0.4"
std::string format_detectable(const Measure& measure, const Effect& effect) {
  const double value = effect.test.detectable;
  if (effect.test.difference.count == 0 || !std::isfinite(value)) return "";
  return measure.scale == Scale::plain ? fmt::format("± {:.2g}", value)
                                       : fmt::format("×/÷ {:.3g}", std::exp(value));
}

std::string format_p(double p) {
  if (std::isnan(p)) return "";
  return p < 0.0001 ? "< 0.0001" : fmt::format("{:.2g}", p);
}

std::string format_p(const std::optional<double>& p) { return p ? format_p(*p) : ""; }

bool is_compared(const ComparisonRow& row) { return row.effect.test.difference.count > 0; }

/// A column of a table. One that is too wide for a terminal is squeezed: columns of rank 1 first.
struct Column {
  std::string head;
  int rank = 0;              ///< 0 = stays as it is
  bool by_interval = false;  ///< loses its intervals instead of going
  std::vector<std::string> cells = {};
};

std::vector<Line> lines_of(const std::vector<Column>& columns) {
  std::vector<Line> lines(columns.front().cells.size() + 1);
  for (const Column& column : columns) {
    lines.front().push_back(column.head);
    for (std::size_t i = 0; i < column.cells.size(); ++i) lines[i + 1].push_back(column.cells[i]);
  }
  return lines;
}

std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    most = std::max(most, display_width(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return most;
}

void drop_interval(std::string& cell) {
  for (const char* begin : {" [", " ±"}) {
    if (const auto found = cell.find(begin); found != std::string::npos) cell.resize(found);
  }
}

/// The table for a terminal, of those columns that fit.
std::string fitting_text(std::vector<Column> columns) {
  for (;;) {
    const std::string text = join_text(lines_of(columns));
    if (widest(text) <= kTerminalWidth) return text;
    auto next = columns.end();
    for (auto column = columns.begin(); column != columns.end(); ++column) {
      if (column->rank > 0 && (next == columns.end() || column->rank < next->rank)) next = column;
    }
    if (next == columns.end()) return text;
    if (next->by_interval) {
      std::ranges::for_each(next->cells, drop_interval);
      next->rank = 0;
    } else {
      columns.erase(next);
    }
  }
}

std::string format_columns(const std::vector<Column>& columns, TableStyle style) {
  return style == TableStyle::kMarkdown ? join_markdown(lines_of(columns)) : fitting_text(columns);
}

/// Of one variant: softmax beside each other score, or the score alone where softmax is absent.
/// Repeats are left out.
std::vector<Column> variant_columns(std::span<const ComparisonRow> group) {
  const bool against = std::ranges::any_of(group, is_compared);
  std::vector<ComparisonRow> rows;
  for (const ComparisonRow& row : group) {
    if (row.role != RowRole::repeat && !(against && row.score == kBaselineScore)) {
      rows.push_back(row);
    }
  }
  std::vector<Column> columns;
  const auto add = [&](Column column, const auto& cell) {
    for (const ComparisonRow& row : rows) column.cells.push_back(cell(row));
    columns.push_back(std::move(column));
  };
  add({"metric"}, [](const ComparisonRow& row) { return row.metric; });
  if (against) {
    add({std::string(kBaselineScore), 5, true},
        [&](const ComparisonRow& row) { return baseline_estimate(group, row.metric); });
  }
  add({"score"}, [](const ComparisonRow& row) { return row.score; });
  add({"value", 5, true}, [](const ComparisonRow& row) { return format_centre(row); });
  if (against) {
    add({"difference"},
        [](const ComparisonRow& row) { return format_effect(row.measure, row.effect); });
    add({"p", 4}, [](const ComparisonRow& row) {
      return is_compared(row) ? format_p(row.effect.test.p) : "";
    });
    add({"adjusted", 8}, [](const ComparisonRow& row) { return format_p(row.p_adjusted); });
    add({"flips", 3}, [](const ComparisonRow& row) {
      return is_compared(row) ? format_p(row.effect.sign_flip_p) : "";
    });
    add({"detectable", 6},
        [](const ComparisonRow& row) { return format_detectable(row.measure, row.effect); });
    add({"verdict"}, [](const ComparisonRow& row) { return row.verdict; });
  }
  for (const auto& baseline : group.front().baselines) {
    add({baseline.first, 2}, [&](const ComparisonRow& row) {
      const auto found =
          std::ranges::find(row.baselines, baseline.first, &std::pair<std::string, double>::first);
      return found == row.baselines.end() ? "" : fmt::format("{:.4g}", found->second);
    });
  }
  add({"seeds", 7}, [](const ComparisonRow& row) { return format_seeds(row.seeds); });
  add({"steps", 1}, [](const ComparisonRow& row) { return fmt::format("{}", row.steps); });
  return columns;
}

/// In how many variants a score was lower and higher than softmax.
struct Tally {
  int lower = 0, higher = 0, judged = 0;

  void add(const std::string& verdict) {
    lower += verdict == "lower";
    higher += verdict == "higher";
    ++judged;
  }
  /// "2 lower, 1 higher of 6", "– of 6"
  std::string text() const {
    if (judged == 0) return "";
    std::vector<std::string> parts;
    if (lower > 0) parts.push_back(fmt::format("{} lower", lower));
    if (higher > 0) parts.push_back(fmt::format("{} higher", higher));
    return fmt::format("{} of {}", parts.empty() ? "–" : fmt::format("{}", fmt::join(parts, ", ")),
                       judged);
  }
};

/// The element of `key`, made at the end if there is none: the order of the rows stays.
template <class Value>
Value& at_key(std::vector<std::pair<std::string, Value>>& list, const std::string& key) {
  const auto found = std::ranges::find(list, key, &std::pair<std::string, Value>::first);
  return found != list.end() ? found->second : list.emplace_back(key, Value()).second;
}

}  // namespace

bool is_judged(const ComparisonRow& row) {
  return row.role == RowRole::counted && row.in_table && is_compared(row) &&
         std::isfinite(row.p_adjusted);
}

std::string format_effect(const Measure& measure, const Effect& effect) {
  const Estimate& difference = effect.test.difference;
  if (difference.count == 0) return "";
  if (!std::isfinite(difference.mean)) return "not finite";
  if (measure.scale == Scale::plain) return format_estimate(difference, true);
  const std::string ratio = fmt::format("×{:.3g}", std::exp(difference.mean));
  if (!std::isfinite(difference.half_width)) return ratio;
  return fmt::format("{} [{:.3g}, {:.3g}]", ratio,
                     std::exp(difference.mean - difference.half_width),
                     std::exp(difference.mean + difference.half_width));
}

std::string verdict_table(const std::vector<ComparisonRow>& rows, TableStyle style) {
  std::vector<std::pair<std::string, std::vector<std::pair<std::string, Tally>>>> metrics;
  std::vector<std::pair<std::string, Tally>> all;  // by score
  at_key(metrics, "all");                          // the first line
  for (const ComparisonRow& row : rows) {
    if (!is_judged(row)) continue;
    at_key(all, row.score).add(row.verdict);
    at_key(at_key(metrics, row.metric), row.score).add(row.verdict);
  }
  if (all.size() < 2) return "";
  at_key(metrics, "all") = all;
  std::vector<Line> lines = {{"metric"}};
  for (const auto& [score, unused] : all) lines.front().push_back(score);
  for (auto& [metric, tallies] : metrics) {
    Line line = {metric};
    for (const auto& [score, unused] : all) line.push_back(at_key(tallies, score).text());
    lines.push_back(std::move(line));
  }
  if (style == TableStyle::kMarkdown) return join_markdown(lines);
  const std::string text = join_text(lines);
  return widest(text) <= kTerminalWidth ? text : "";
}

std::vector<ComparisonRow> rows_of_table(const std::vector<ComparisonRow>& rows) {
  std::vector<ComparisonRow> out;
  std::ranges::copy_if(rows, std::back_inserter(out), &ComparisonRow::in_table);
  return out;
}

std::vector<VerdictCount> count_verdicts(const std::vector<ComparisonRow>& rows) {
  std::vector<VerdictCount> counts;
  const auto add = [&](const std::string& score, const ComparisonRow& row) {
    auto found = std::ranges::find(counts, score, &VerdictCount::score);
    if (found == counts.end()) found = counts.insert(counts.end(), {score});
    const bool decided = row.verdict == "lower" || row.verdict == "higher";
    const bool better = decided && row.verdict == name_of(row.measure.better);
    ++found->comparisons;
    found->better += better;
    found->worse += decided && !better;
    found->equivalent += row.verdict == "equivalent";
    found->not_decided += row.verdict == "not decided";
  };
  for (const ComparisonRow& row : rows) {
    if (is_judged(row)) add(row.score, row);
  }
  if (counts.size() < 2) return counts;
  for (const ComparisonRow& row : rows) {
    if (is_judged(row)) add("all", row);
  }
  return counts;
}

std::string format_count(const VerdictCount& count) {
  return fmt::format("{}: of {} with softmax {} better, {} worse, {} equivalent, {} not decided.\n",
                     count.score, counted(count.comparisons, "comparison"), count.better,
                     count.worse, count.equivalent, count.not_decided);
}

std::string format_endpoints(const std::vector<EndpointRow>& endpoints, TableStyle style) {
  if (endpoints.empty()) return "";
  std::vector<Column> columns;
  const auto add = [&](Column column, const auto& cell) {
    for (const EndpointRow& row : endpoints) column.cells.push_back(cell(row));
    columns.push_back(std::move(column));
  };
  add({"endpoint"}, [](const EndpointRow& row) { return row.endpoint.name; });
  add({"variant", 4}, [](const EndpointRow& row) { return row.endpoint.variant; });
  add({"score"}, [](const EndpointRow& row) { return row.score; });
  add({"difference"},
      [](const EndpointRow& row) { return format_effect(row.measure, row.effect); });
  add({"p", 2}, [](const EndpointRow& row) {
    return row.effect.test.difference.count > 0 ? format_p(row.effect.test.p) : "";
  });
  add({"Holm"}, [](const EndpointRow& row) { return format_p(row.p_adjusted); });
  add({"flips", 1}, [](const EndpointRow& row) { return format_p(row.effect.sign_flip_p); });
  add({"detectable", 3},
      [](const EndpointRow& row) { return format_detectable(row.measure, row.effect); });
  add({"seeds"}, [](const EndpointRow& row) {
    return fmt::format("{} of {}", row.seeds.size(), row.planned);
  });
  add({"verdict"}, [](const EndpointRow& row) { return row.verdict; });
  return format_columns(columns, style);
}

std::string markdown_score_parameters(const std::vector<ScoreParameterRow>& rows) {
  if (rows.empty()) return "";
  std::size_t heads = 0;
  for (const ScoreParameterRow& row : rows) heads = std::max(heads, row.heads.size());
  Line head = {"variant", "score", "parameter", "layer"};
  const std::size_t first_head = head.size();
  for (std::size_t i = 1; i <= heads; ++i) head.push_back(fmt::format("head {}", i));
  head.emplace_back("seeds");
  std::vector<Line> lines = {head};
  for (const ScoreParameterRow& row : rows) {
    Line line = {row.variant, row.score, row.parameter, fmt::format("{}", row.layer + 1)};
    const char* shared = row.heads.size() < heads ? " (all heads)" : "";
    for (const Estimate& value : row.heads) line.push_back(format_estimate(value, false) + shared);
    line.resize(first_head + heads);  // those that have no value of their own
    line.push_back(format_seeds(row.seeds));
    lines.push_back(std::move(line));
  }
  return join_markdown(lines);
}

std::string wrap(std::string_view text) {
  std::string out;
  std::size_t column = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string word(text.substr(begin, end - begin));
    const std::size_t width = display_width(word);
    if (column > 0 && column + 1 + width > kTerminalWidth) {
      out += "\n";
      column = 0;
    }
    if (column > 0) out += ' ';
    out += word;
    column += width + (column > 0 ? 1 : 0);
    begin = end + 1;
  }
  return out + "\n";
}

std::string format_table(const std::vector<ComparisonRow>& rows, TableStyle style) {
  const bool markdown = style == TableStyle::kMarkdown;
  std::string out;
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin;
    while (end < rows.size() && rows[end].variant == rows[begin].variant &&
           rows[end].evaluation == rows[begin].evaluation) {
      ++end;
    }
    const std::span<const ComparisonRow> group(&rows[begin], end - begin);
    const ComparisonRow& first = group.front();
    const std::string size = fmt::format(
        "{}, {}, {}, width {}, {}, batch {}, {}", first.task, counted(first.layers, "layer"),
        counted(first.heads, "head"), first.width, counted(first.parameters, "parameter"),
        first.batch, counted(first.steps, "step"));
    out += fmt::format("{}{}{}\n{}{}\n{}{}", begin == 0 ? "" : "\n", markdown ? "### " : "",
                       first.variant, markdown ? "\n" : "  ", size, markdown ? "\n" : "",
                       format_columns(variant_columns(group), style));
    begin = end;
  }
  return out;
}

}  // namespace ssa
