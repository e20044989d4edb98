#include "theory/theory.h"

#include <algorithm>
#include <cmath>

#include "ssa/attention.h"
#include "ssa/check.h"

namespace ssa {
namespace {

/// log Σ_j exp φ(row_j): the log-normaliser of one query of 1 against keys `row` of dimension 1.
double log_normaliser(const ScoreInfo& score, std::span<const double> params,
                      std::span<const double> row) {
  SSA_CHECK(params.size() == score.params.size(), "score " << score.name << " has "
                                                           << score.params.size()
                                                           << " parameters, not " << params.size());
  const double one = 1.0;
  double out = 0.0, lse = 0.0;
  AttentionArgs<double> args;
  args.score = score.name;
  args.batch = args.query_heads = args.kv_heads = args.query_length = 1;
  args.qk_dim = args.v_dim = 1;
  args.key_length = static_cast<std::int64_t>(row.size());
  args.query = {&one, {1, 1, 1, 1}};
  args.key = {row.data(), {args.key_length, args.key_length, 1, 1}};
  args.value = {&one, {0, 0, 0, 1}};
  for (std::size_t i = 0; i < params.size(); ++i) args.params[i] = {&params[i], 0};
  reference_forward(args, {&out, {1, 1, 1, 1}}, &lse);
  return lse;
}

/// x from `first` to `last`: equally spaced, or in equal ratios.
std::vector<double> spaced(double first, double last, std::size_t count, bool log_axis) {
  std::vector<double> x(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double t = static_cast<double>(i) / static_cast<double>(count - 1);
    x[i] = log_axis ? first * std::pow(last / first, t) : first + t * (last - first);
  }
  return x;
}

// Power laws hold up to 1/(b·x): at x = 1e4 and b = 0.8 the local slope is 1.2e-4 short of n.
// Exponentials hold up to exp(−x·gap): 2e-5 of the slope at x = 20 and a gap of 0.5.
constexpr double kLogFirst = 1.0, kLogFitFrom = 1e4, kLogLast = 1e6;
constexpr double kLinearFirst = 0.0, kLinearFitFrom = 20.0, kLinearLast = 40.0;
constexpr std::size_t kPoints = 41;

/// Fills axis, x, log_miss and both slopes. row_at(x) gives the row; its first entry dominates.
template <class RowAt>
void measure(TheoremCurve& curve, const ScoreInfo& score, const PredictedSlope& predicted,
             const RowAt& row_at) {
  curve.log_axis = predicted.log_axis;
  curve.predicted_slope = predicted.slope;
  curve.fit_from = curve.log_axis ? kLogFitFrom : kLinearFitFrom;
  curve.x = curve.log_axis ? spaced(kLogFirst, kLogLast, kPoints, true)
                           : spaced(kLinearFirst, kLinearLast, kPoints, false);
  std::vector<double> tail_x, tail_y;
  for (const double x : curve.x) {
    curve.log_miss.push_back(log_miss(score, curve.params, row_at(x), 0));
    if (x < curve.fit_from * (1 - 1e-9)) continue;
    tail_x.push_back(curve.log_axis ? std::log(x) : x);
    tail_y.push_back(curve.log_miss.back());
  }
  curve.fitted_slope = fit_slope(tail_x, tail_y);
}

}  // namespace

bool TheoremCurve::holds(double tolerance) const {
  return std::abs(fitted_slope - predicted_slope) <=
         tolerance * std::max(1.0, std::abs(predicted_slope));
}

double phi(const ScoreInfo& score, std::span<const double> params, double s) {
  return log_normaliser(score, params, {&s, 1});
}

double log_miss(const ScoreInfo& score, std::span<const double> params, std::span<const double> row,
                std::size_t top) {
  SSA_CHECK(row.size() >= 2 && top < row.size(), "log_miss needs a row of two scores or more");
  std::vector<double> others(row.begin(), row.end());
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(top));
  return log_normaliser(score, params, others) - log_normaliser(score, params, row);
}

Growth measure_growth(const ScoreInfo& score, std::span<const double> params) {
  constexpr double kFar = 1e9;
  // A logarithm's slope n/t at t = 1e9 is told from a linear one by this floor.
  constexpr double kLinearFloor = 1e-6;
  const auto one_side = [&](double sign) {
    const double near = sign * phi(score, params, sign * kFar);
    const double far = sign * phi(score, params, sign * 2 * kFar);
    const double linear = (far - near) / kFar;
    if (std::abs(linear) > kLinearFloor) return std::pair{linear, 0.0};
    return std::pair{0.0, (far - near) / std::log(2.0)};
  };
  const auto [linear_above, logarithmic_above] = one_side(+1);
  const auto [linear_below, logarithmic_below] = one_side(-1);
  return {linear_above, logarithmic_above, linear_below, logarithmic_below};
}

PredictedSlope predict_magnification(const Growth& growth, double top, double other) {
  const auto linear = [&](double s) {
    return s * (s > 0 ? growth.linear_above : growth.linear_below);
  };
  const auto logarithmic = [&](double s) {
    return s > 0 ? growth.logarithmic_above : s < 0 ? -growth.logarithmic_below : 0.0;
  };
  const double slope = linear(other) - linear(top);
  if (slope != 0) return {false, slope};
  return {true, logarithmic(other) - logarithmic(top)};
}

double fit_slope(std::span<const double> x, std::span<const double> y) {
  SSA_CHECK(x.size() == y.size(), "fit_slope: " << x.size() << " x and " << y.size() << " y");
  double mean_x = 0, mean_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) mean_x += x[i], mean_y += y[i];
  mean_x /= static_cast<double>(x.size());
  mean_y /= static_cast<double>(x.size());
  double xx = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  SSA_CHECK(xx > 0, "fit_slope needs two different x");
  return xy / xx;
}

std::vector<const ScoreInfo*> theorem_scores() {
  std::vector<const ScoreInfo*> list;
  for (const ScoreInfo& score : phi_scores()) {
    if (!score.counts_keys && score.sink.empty()) list.push_back(&score);
  }
  return list;
}

std::vector<TheoremCurve> measure_theorems(const ScoreInfo& score, std::span<const double> params) {
  const Growth growth = measure_growth(score, params);
  const std::vector<double> values(params.begin(), params.end());
  std::vector<TheoremCurve> curves;

  struct Case {
    const char* name;
    std::vector<double> row;
  };
  const Case cases[] = {{"positive competitors", {2, 1, 0.5}},
                        {"zero competitors", {2, 0, 0}},
                        {"negative competitors", {2, -1, -2}}};
  for (const Case& each : cases) {
    TheoremCurve& curve = curves.emplace_back();
    curve.theorem = "magnification";
    curve.score = score.name;
    curve.params = values;
    curve.case_name = each.name;
    curve.row = each.row;
    measure(curve, score, predict_magnification(growth, each.row[0], each.row[1]), [&](double x) {
      std::vector<double> row = each.row;
      for (double& s : row) s *= x;
      return row;
    });
  }

  TheoremCurve& curve = curves.emplace_back();
  curve.theorem = "disproportion";
  curve.score = score.name;
  curve.params = values;
  curve.case_name = "one huge value";
  curve.row = {1, -1, -2};
  // The others stay where they are, as a score of 0 would under magnification.
  measure(curve, score, predict_magnification(growth, 1, 0), [&](double x) {
    std::vector<double> row = curve.row;
    row.insert(row.begin(), x);
    return row;
  });
  return curves;
}

}  // namespace ssa
