#include "experiment/statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

namespace ssa {
namespace {

// P(|T| <= sqrt(degrees)·tan(theta)): the finite series for whole degrees of freedom
// (Abramowitz & Stegun 26.7.3 and 26.7.4).
double probability_within(double theta, std::int64_t degrees) {
  const double sine = std::sin(theta);
  const double cosine_squared = std::cos(theta) * std::cos(theta);
  const bool odd = degrees % 2 == 1;
  double term = odd ? std::cos(theta) : 1.0;
  double sum = 0;
  // `below` is the denominator that turns the previous term into the next one.
  for (std::int64_t below = odd ? 3 : 2; below <= degrees; below += 2) {
    sum += term;
    term *= cosine_squared * static_cast<double>(below - 1) / static_cast<double>(below);
  }
  return odd ? 2 / std::numbers::pi * (theta + sine * sum) : sine * sum;
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Indices of the p that are numbers, from the smallest on.
std::vector<std::size_t> ascending(std::span<const double> p) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (!std::isnan(p[i])) order.push_back(i);
  }
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  return order;
}

}  // namespace

double student_t_quantile(double confidence, std::int64_t degrees) {
  if (!(confidence > 0 && confidence < 1) || degrees < 1) {
    throw std::invalid_argument("student_t_quantile: needs 0 < confidence < 1 and degrees >= 1");
  }
  double low = 0;
  double high = std::numbers::pi / 2;
  for (double middle = high / 2; middle > low && middle < high; middle = (low + high) / 2) {
    (probability_within(middle, degrees) < confidence ? low : high) = middle;
  }
  return std::sqrt(static_cast<double>(degrees)) * std::tan(low);
}

double student_t_p(double t, std::int64_t degrees) {
  if (std::isnan(t) || degrees < 1) return kNaN;
  if (std::isinf(t)) return 0;
  const double within =
      probability_within(std::atan(std::abs(t) / std::sqrt(static_cast<double>(degrees))), degrees);
  return std::clamp(1 - within, 0.0, 1.0);
}

Estimate estimate(std::span<const double> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  double sum = 0;
  for (double value : values) sum += value;
  const double mean = sum / static_cast<double>(count);
  if (count < 2) return {mean, std::numeric_limits<double>::quiet_NaN(), count};
  double squares = 0;
  for (double value : values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(count - 1));
  return {mean,
          student_t_quantile(0.95, count - 1) * deviation / std::sqrt(static_cast<double>(count)),
          count};
}

PairedTest paired_test(std::span<const double> differences, double least_variance) {
  PairedTest test{estimate(differences), kNaN, kNaN};
  Estimate& found = test.difference;
  if (found.count < 2 || !std::isfinite(found.mean)) return test;
  const std::int64_t degrees = found.count - 1;
  const double t = student_t_quantile(0.95, degrees);
  const double error = std::max(found.half_width / t, std::sqrt(least_variance));
  found.half_width = t * error;
  test.p = found.mean == 0 ? 1 : student_t_p(found.mean / error, degrees);
  // One-sided 0.8 is two-sided 0.6.
  test.detectable = (t + student_t_quantile(0.6, degrees)) * error;
  return test;
}

std::optional<double> sign_flip_p(std::span<const double> differences) {
  const std::size_t count = differences.size();
  if (count < 2 || count > 24) return {};
  double sum = 0, size = 0;
  for (const double value : differences) {
    if (!std::isfinite(value)) return {};
    sum += value;
    size += std::abs(value);
  }
  // The first sign may stay: a choice and its opposite are equally far from 0. The others change
  // one at a time (Gray code). Sums that differ by rounding alone count as equal.
  const double least = std::abs(sum) - 1e-12 * size;
  const std::uint64_t choices = std::uint64_t{1} << (count - 1);
  std::vector<double> signed_values(differences.begin(), differences.end());
  std::uint64_t as_far = 0;
  for (std::uint64_t choice = 0;;) {
    as_far += std::abs(sum) >= least;
    if (++choice == choices) break;
    double& flipped = signed_values[static_cast<std::size_t>(std::countr_zero(choice)) + 1];
    sum -= 2 * flipped;
    flipped = -flipped;
  }
  return static_cast<double>(as_far) / static_cast<double>(choices);
}

std::vector<double> benjamini_hochberg(std::span<const double> p) {
  const std::vector<std::size_t> order = ascending(p);
  std::vector<double> adjusted(p.begin(), p.end());
  double least = 1;
  for (std::size_t rank = order.size(); rank > 0; --rank) {
    const std::size_t i = order[rank - 1];
    least = std::min(least, p[i] * static_cast<double>(order.size()) / static_cast<double>(rank));
    adjusted[i] = least;
  }
  return adjusted;
}

std::vector<double> holm(std::span<const double> p) {
  const std::vector<std::size_t> order = ascending(p);
  std::vector<double> adjusted(p.begin(), p.end());
  double most = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const std::size_t i = order[rank];
    most = std::max(most, std::min(1.0, p[i] * static_cast<double>(order.size() - rank)));
    adjusted[i] = most;
  }
  return adjusted;
}

double log_odds(std::int64_t errors, std::int64_t chances) {
  const auto k = static_cast<double>(errors), n = static_cast<double>(chances);
  return std::log((k + 0.5) / (n - k + 0.5));
}

double log_odds_variance(std::int64_t errors, std::int64_t chances) {
  const auto k = static_cast<double>(errors), n = static_cast<double>(chances);
  return 1 / (k + 0.5) + 1 / (n - k + 0.5);
}

}  // namespace ssa
