#include "experiment/row_role.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "eval/metric_kind.h"

namespace ssa {
namespace {

/// "huge=-10/40/wrong-before" -> huge, -10, 40/wrong-before; "none/40/wrong" has an empty value.
struct ShiftKey {
  std::string shift, value, rest;
};

ShiftKey shift_key(const std::string& metric) {
  const std::size_t slash = metric.find('/');
  const std::string head = metric.substr(0, slash);
  const std::string rest = slash == std::string::npos ? "" : metric.substr(slash + 1);
  const std::size_t equals = head.find('=');
  if (equals == std::string::npos) return {head, "", rest};
  return {head.substr(0, equals), head.substr(equals + 1), rest};
}

/// The keys of which this one is a copy by construction.
std::vector<std::string> originals(const std::string& metric, const CellResult& result) {
  const auto [shift, value, rest] = shift_key(metric);
  const auto key = [&rest](std::string_view name, std::string_view of = "") {
    return fmt::format("{}{}{}/{}", name, of.empty() ? "" : "=", of, rest);
  };
  if (shift == "sigma" || shift == "coefficients" || shift == "both") {
    return value == "1" ? std::vector{key("none")} : std::vector<std::string>();
  }
  if (shift == "grid") {
    const std::size_t times = value.find('x');
    const std::string inputs = value.substr(0, times), function = value.substr(times + 1);
    if (inputs == "1" && function == "1") return {key("none")};
    if (function == "1") return {key("sigma", inputs)};
    if (inputs == "1") return {key("coefficients", function)};
    if (inputs == function) return {key("both", inputs)};
    return {};
  }
  std::vector<std::string> found;
  if (shift == "huge" && metric_part(metric) == MetricPart::before) {
    for (const auto& [other, unused] : result.metrics.items()) {
      if (other == metric) break;
      const ShiftKey parts = shift_key(other);
      if (parts.shift == shift && parts.rest == rest) found.push_back(other);
    }
  }
  if (shift == "huge" && metric_name(rest) == "sequence-wrong-at") {
    const std::string points = rest.substr(0, rest.find('/'));
    found.push_back(fmt::format("{}={}/{}/wrong-at", shift, value, points));
  }
  return found;
}

/// "mean of binding/accuracy": those of its paradigms that stand before it.
std::vector<std::string> parts_of_mean(const std::string& metric, const CellResult& result) {
  std::vector<std::string> found;
  if (!metric.starts_with("mean of ")) return found;
  for (const auto& [other, unused] : result.metrics.items()) {
    if (other == metric) break;
    if (metric_name(other) == metric_name(metric)) found.push_back(other);
  }
  return found;
}

/// Up to the rounding of float32.
bool is_same(const Json& a, const Json& b) {
  if (!a.is_number() || !b.is_number()) return a == b;
  const double x = a.get<double>(), y = b.get<double>();
  return std::abs(x - y) <= 1e-6 * std::max(std::abs(x), std::abs(y));
}

bool same_everywhere(const std::string& metric, const std::string& other,
                     const std::vector<const CellResult*>& results) {
  return std::ranges::all_of(results, [&](const CellResult* result) {
    const Json& metrics = result->metrics;
    return metrics.contains(metric) && metrics.contains(other) &&
           is_same(metrics.at(metric), metrics.at(other));
  });
}

/// Whether these inputs are those of training: nothing is asked beyond them.
bool is_control(const std::string& metric, const CellResult& result) {
  const auto [shift, value, rest] = shift_key(metric);
  if (shift == "training") return true;
  if (result.evaluation != "icl-shift") return false;
  if (shift == "none" || metric_part(metric) == MetricPart::before) return true;
  if (shift != "length") return false;
  std::int64_t points = 0;
  std::from_chars(value.data(), value.data() + value.size(), points);
  return points <= result.config.value("task", Json::object()).value("points_end", 0);
}

}  // namespace

MetricRole role_of(const std::string& metric, const std::vector<const CellResult*>& results) {
  if (results.empty()) return {};
  const CellResult& first = *results.front();
  const std::vector<std::string> candidates =
      first.evaluation == "icl-shift" ? originals(metric, first) : parts_of_mean(metric, first);
  for (const std::string& other : candidates) {
    if (same_everywhere(metric, other, results)) return {RowRole::repeat, other};
  }
  if (metric_kind(metric).better == Better::neither) return {RowRole::description};
  return {is_control(metric, first) ? RowRole::control : RowRole::counted};
}

}  // namespace ssa
