// The one rule for standard errors of means.
#pragma once

#include <algorithm>
#include <cmath>

namespace ssa {

/// Of the mean of `count` values with that sum and sum of squares: sqrt(s² / count), s² the
/// variance over count - 1. 0 of one value.
inline double standard_error_of_mean(double sum, double squares, double count) {
  const double mean = sum / count;
  const double variance = std::max(squares / count - mean * mean, 0.0);
  return std::sqrt(variance / std::max(count - 1, 1.0));
}

}  // namespace ssa
