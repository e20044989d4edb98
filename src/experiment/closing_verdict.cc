#include "experiment/closing_verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "config/counted.h"
#include "experiment/table_text.h"
#include "experiment/verdict.h"

namespace ssa {
namespace {

constexpr std::size_t kEndpointLines = 2;

/// "better" instead of "lower" of an error; what is no direction stays.
std::string in_words(const std::string& verdict, const Measure& measure) {
  if (measure.better == Better::neither || (verdict != "lower" && verdict != "higher")) {
    return verdict;
  }
  return verdict == name_of(measure.better) ? "better" : "worse";
}

/// Of "smoke run, no verdict" and "no verdict: too few seeds".
std::string reason_of(const std::string& verdict) {
  constexpr std::string_view kBefore = "no verdict: ", kAfter = ", no verdict";
  if (verdict.starts_with(kBefore)) return verdict.substr(kBefore.size());
  if (verdict.ends_with(kAfter)) return verdict.substr(0, verdict.size() - kAfter.size());
  return verdict;
}

std::string counts_line(const std::vector<ComparisonRow>& rows) {
  const std::vector<VerdictCount> counts = count_verdicts(rows);
  if (counts.empty()) {
    const auto reason = std::ranges::find_if(rows, [](const ComparisonRow& row) {
      return row.effect.test.difference.count > 0 && !std::isfinite(row.p_adjusted) &&
             row.role == RowRole::counted;
    });
    return fmt::format("Verdict: none: {}.\n", reason == rows.end()
                                                   ? "no error is compared with softmax's"
                                                   : reason_of(reason->verdict));
  }
  const VerdictCount& all = counts.back();  // of all scores, where there are several
  return fmt::format(
      "Verdict: of {}{} with softmax {} better, {} worse, {} equivalent, {} not "
      "decided.\n",
      counted(all.comparisons, "comparison"),
      counts.size() == 1 ? " of " + all.score : fmt::format(" of {} scores", counts.size() - 1),
      all.better, all.worse, all.equivalent, all.not_decided);
}

/// The most certain first; the last line sums up those that have none of their own.
std::string endpoint_lines(const std::vector<EndpointRow>& endpoints) {
  std::vector<EndpointRow> sorted = endpoints;
  std::ranges::stable_sort(sorted, {}, [](const EndpointRow& row) {
    return std::isfinite(row.p_adjusted) ? row.p_adjusted : 2;
  });
  const std::size_t own = sorted.size() <= kEndpointLines ? sorted.size() : kEndpointLines - 1;
  std::string out;
  for (std::size_t i = 0; i < own; ++i) {
    const EndpointRow& row = sorted[i];
    const std::string effect = format_effect(row.measure, row.effect);
    out += fmt::format("Primary endpoint {} ({}): {}{}.\n", row.endpoint.name, row.score,
                       effect.empty() ? "" : effect + ", ", in_words(row.verdict, row.measure));
  }
  if (own == sorted.size()) return out;
  std::vector<std::pair<std::string, int>> kinds;
  for (std::size_t i = own; i < sorted.size(); ++i) {
    const std::string words = in_words(sorted[i].verdict, sorted[i].measure);
    const auto found = std::ranges::find(kinds, words, &std::pair<std::string, int>::first);
    if (found == kinds.end()) {
      kinds.emplace_back(words, 1);
    } else {
      ++found->second;
    }
  }
  std::vector<std::string> parts;
  for (const auto& [words, count] : kinds) parts.push_back(fmt::format("{} {}", count, words));
  return out + fmt::format("{} other primary endpoints: {}.\n", sorted.size() - own,
                           fmt::join(parts, ", "));
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Of the scale that most of the undecided comparisons have.
std::string not_seen_line(const std::vector<ComparisonRow>& rows) {
  std::map<std::string, std::vector<double>> detectable;  // by what kind of difference it is
  for (const ComparisonRow& row : rows) {
    const double value = row.effect.test.detectable;
    if (!is_judged(row) || row.verdict != "not decided" || !std::isfinite(value)) continue;
    const bool plain = row.measure.scale == Scale::plain;
    const std::string kind = !plain                          ? "a factor of {:.3g}"
                             : row.measure.unit == "percent" ? "{:.2g} percentage points"
                                                             : "a difference of {:.2g}";
    detectable[kind].push_back(plain ? value : std::exp(value));
  }
  if (detectable.empty()) return "";
  const auto most = std::ranges::max_element(
      detectable, {}, [](const auto& of_kind) { return of_kind.second.size(); });
  return fmt::format("Not seen: half of {} undecided comparisons could not show less than {}.\n",
                     most->second.size(),
                     fmt::format(fmt::runtime(most->first), median(most->second)));
}

}  // namespace

std::string closing_verdict(const std::vector<ComparisonRow>& rows,
                            const std::vector<EndpointRow>& endpoints, std::size_t cells,
                            std::size_t unfinished) {
  std::string out = counts_line(rows) + endpoint_lines(endpoints) + not_seen_line(rows);
  if (unfinished > 0) out += fmt::format("{} of {} cells are not finished.\n", unfinished, cells);
  return out;
}

}  // namespace ssa
