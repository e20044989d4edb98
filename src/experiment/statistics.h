// What a comparison over seeds needs: mean, 95 % interval of the mean, Student's t.
#pragma once

#include <cstdint>
#include <span>

namespace ssa {

/// A mean over seeds and the half width of its 95 % interval.
struct Estimate {
  double mean;
  double half_width;  ///< NaN where fewer than two values leave the spread unknown
  std::int64_t count;
};

/// The t with P(|T| <= t) = confidence, T being Student's t with that many degrees of freedom.
/// Throws std::invalid_argument unless 0 < confidence < 1 and degrees >= 1.
double student_t_quantile(double confidence, std::int64_t degrees);

/// Mean and 95 % interval of values taken to be normal; mean NaN where there are none.
Estimate estimate(std::span<const double> values);

}  // namespace ssa
