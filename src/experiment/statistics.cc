#include "experiment/statistics.h"

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

}  // namespace ssa
