#include "experiment/table_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

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

/// "-0.25 ± 0.31", or "×0.25 [0.18, 0.35]" of odds and of values that span decades.
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

/// Lines of one variant: softmax beside each other score, or the score alone where softmax is
/// absent. Repeats are left out.
std::vector<Line> variant_lines(std::span<const ComparisonRow> rows) {
  const bool against = std::ranges::any_of(rows, is_compared);
  std::vector<std::string> baselines;
  for (const auto& [name, value] : rows.front().baselines) baselines.push_back(name);
  Line head = {"metric"};
  if (against) head.emplace_back(kBaselineScore);
  head.insert(head.end(), {"score", "value"});
  if (against) {
    head.insert(head.end(), {"difference", "p", "adjusted", "flips", "detectable", "verdict"});
  }
  head.insert(head.end(), baselines.begin(), baselines.end());
  head.insert(head.end(), {"seeds", "steps"});

  std::vector<Line> lines = {head};
  for (const ComparisonRow& row : rows) {
    if (row.role == RowRole::repeat || (against && row.score == kBaselineScore)) continue;
    Line line = {row.metric};
    if (against) line.push_back(baseline_estimate(rows, row.metric));
    line.insert(line.end(), {row.score, format_centre(row)});
    if (against) {
      const Effect& effect = row.effect;
      const bool compared = is_compared(row);
      line.insert(line.end(),
                  {format_effect(row.measure, effect), compared ? format_p(effect.test.p) : "",
                   format_p(row.p_adjusted), compared ? format_p(effect.sign_flip_p) : "",
                   format_detectable(row.measure, effect), row.verdict});
    }
    for (const std::string& name : baselines) {
      const auto found =
          std::ranges::find(row.baselines, name, &std::pair<std::string, double>::first);
      line.push_back(found == row.baselines.end() ? "" : fmt::format("{:.4g}", found->second));
    }
    line.insert(line.end(), {format_seeds(row.seeds), fmt::format("{}", row.steps)});
    lines.push_back(std::move(line));
  }
  return lines;
}

bool is_judged(const ComparisonRow& row) {
  return row.role == RowRole::counted && row.in_table && is_compared(row) &&
         std::isfinite(row.p_adjusted);
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
  return style == TableStyle::kMarkdown ? join_markdown(lines) : join_text(lines);
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

std::string format_counts(const std::vector<VerdictCount>& counts) {
  std::string out;
  for (const VerdictCount& count : counts) {
    out += fmt::format(
        "{}: of {} comparisons with softmax {} better, {} worse, {} equivalent, {} not decided.\n",
        count.score, count.comparisons, count.better, count.worse, count.equivalent,
        count.not_decided);
  }
  return out;
}

std::string format_endpoints(const std::vector<EndpointRow>& endpoints, TableStyle style) {
  if (endpoints.empty()) return "";
  std::vector<Line> lines = {{"endpoint", "variant", "score", "difference", "p", "Holm", "flips",
                              "detectable", "seeds", "verdict"}};
  for (const EndpointRow& row : endpoints) {
    const bool run = row.effect.test.difference.count > 0;
    lines.push_back({row.endpoint.name, row.endpoint.variant, row.score,
                     format_effect(row.measure, row.effect), run ? format_p(row.effect.test.p) : "",
                     format_p(row.p_adjusted), format_p(row.effect.sign_flip_p),
                     format_detectable(row.measure, row.effect),
                     fmt::format("{} of {}", row.seeds.size(), row.planned), row.verdict});
  }
  return style == TableStyle::kMarkdown ? join_markdown(lines) : join_text(lines);
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
        "{}, {} layers, {} heads, width {}, {} parameters, batch {}, {} steps", first.task,
        first.layers, first.heads, first.width, first.parameters, first.batch, first.steps);
    out += fmt::format(
        "{}{}{}{}\n{}", begin == 0 ? "" : "\n", markdown ? "### " : "", first.variant,
        markdown ? "\n\n" + size + "\n" : " (" + size + ")",
        markdown ? join_markdown(variant_lines(group)) : join_text(variant_lines(group)));
    begin = end;
  }
  return out;
}

}  // namespace ssa
