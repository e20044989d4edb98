#include "model/softmax_limit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ssa/check.h"

namespace ssa {

std::optional<SoftmaxLimit> SoftmaxLimit::of(const std::string& score) {
  if (score == "ssa") return SoftmaxLimit(Kind::ssa);
  if (score == "softcap") return SoftmaxLimit(Kind::softcap);
  if (score == "entmax") return SoftmaxLimit(Kind::entmax);
  if (score == "sink") return SoftmaxLimit(Kind::sink);
  if (score == "temperature") return SoftmaxLimit(Kind::temperature);
  return {};
}

std::vector<double> SoftmaxLimit::values(double x, double slope) const {
  switch (kind_) {
    case Kind::ssa:
      return {1 / x, slope * x};
    case Kind::softcap:
      return {1 / x};
    case Kind::entmax:
      return {1 + x};
    case Kind::sink:
      return {std::log(x)};
    case Kind::temperature:
      break;
  }
  return {1 / (1 - x)};
}

double SoftmaxLimit::coordinate(const std::vector<double>& values) const {
  switch (kind_) {
    case Kind::ssa:
    case Kind::softcap:
      return 1 / values[0];
    case Kind::entmax:
      return values[0] - 1;
    case Kind::sink:
      return std::exp(values[0]);
    case Kind::temperature:
      break;
  }
  return 1 - 1 / values[0];
}

double SoftmaxLimit::slope(const std::vector<double>& values) const {
  return kind_ == Kind::ssa ? values[0] * values[1] : 1.0;
}

double SoftmaxLimit::departure(double x, double size) const {
  switch (kind_) {
    case Kind::ssa:
      return size - std::log1p(x * size) / x;
    case Kind::softcap:
      return size - std::tanh(x * size) / x;
    case Kind::entmax:
      return x * size >= 1 ? std::numeric_limits<double>::infinity()
                           : -std::log1p(-x * size) / x - size;
    case Kind::sink:
      return std::log1p(x * std::exp(size));
    case Kind::temperature:
      break;
  }
  return x * size;
}

double SoftmaxLimit::nearest(double size) const {
  // At a size of 16 the departure is below 1e-4, some 60 units of a score's last digit in float32.
  const double nearer = size > 0 ? std::min(1.0, 16 / size) : 1.0;
  switch (kind_) {
    case Kind::ssa:
      return 0x1p-22 * nearer;
    case Kind::softcap:
      return 0x1p-14 * nearer;
    case Kind::entmax:
      return std::max(0x1p-20 * nearer, 0x1p-22);
    case Kind::sink:
      return std::exp(-size) * 0x1p-24;
    case Kind::temperature:
      break;
  }
  return 0.0;
}

double SoftmaxLimit::furthest(double size, Parametrisation how) const {
  switch (kind_) {
    case Kind::ssa:
      return 1 / (lower_bound(find_score("ssa").params[0], how) + 0.01);
    case Kind::softcap:
      return 1e3;
    case Kind::entmax:
      return 1.0;
    case Kind::sink:
      return std::exp(30 - size);
    case Kind::temperature:
      break;
  }
  return 0.99;
}

std::vector<double> match_softmax(const std::string& score, double size, double strength,
                                  Parametrisation how) {
  const auto limit = SoftmaxLimit::of(score);
  SSA_CHECK(limit, "score " << score
                            << " does not contain softmax as a limit of its parameters; those that "
                               "do: ssa, softcap, entmax, sink, temperature");
  SSA_CHECK(strength >= 0 && std::isfinite(strength),
            "a strength must be finite and at least 0, not " << strength);
  SSA_CHECK(std::isfinite(size) && (size >= 0 || score == "sink"),
            "a size of scores must be finite and at least 0, not " << size);
  double low = limit->nearest(size), high = limit->furthest(size, how);
  if (strength <= limit->departure(low, size)) return limit->values(low, 1.0);
  if (strength >= limit->departure(high, size)) return limit->values(high, 1.0);
  while (high - low > 1e-12 * high) {
    const double middle = low > 0 ? std::sqrt(low * high) : (low + high) / 2;
    (limit->departure(middle, size) < strength ? low : high) = middle;
  }
  return limit->values(high, 1.0);
}

}  // namespace ssa
