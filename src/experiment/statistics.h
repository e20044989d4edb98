// What a comparison over seeds needs: intervals and tests of paired differences, corrections for
// many comparisons, and what a number of seeds could have shown.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

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

/// P(|T| > |t|), T being Student's t with that many degrees of freedom (at least 1).
double student_t_p(double t, std::int64_t degrees);

/// Mean and 95 % interval of values taken to be normal; mean NaN where there are none.
Estimate estimate(std::span<const double> values);

/// Of paired differences, tested against 0.
struct PairedTest {
  Estimate difference;
  double p;  ///< two-sided, Student's t; NaN of fewer than two differences
  /// The smallest true difference that as many seeds with this spread show at the 5 % level with
  /// probability 0.8, by the usual approximation (t of 0.975 + t of 0.8)·standard error; NaN of
  /// fewer than two.
  double detectable;
};

/// `least_variance`: of the mean, known from elsewhere (what counting alone leaves); the spread
/// over seeds counts where it is larger.
PairedTest paired_test(std::span<const double> differences, double least_variance = 0);

/// The exact sign-flip test: the share of all 2^n choices of signs whose sum is at least as far
/// from 0 as that of the differences. Assumes nothing but that a difference and its negative are
/// equally likely without an effect. None for fewer than 2 or more than 24 differences, or where
/// one is not finite.
std::optional<double> sign_flip_p(std::span<const double> differences);

/// Benjamini & Hochberg (1995): adjusted p, to compare with the false discovery rate. In the order
/// given; a NaN takes no part and stays.
std::vector<double> benjamini_hochberg(std::span<const double> p);

/// Holm (1979): adjusted p, to compare with the family-wise error rate.
std::vector<double> holm(std::span<const double> p);

/// Jeffreys' estimate of the log-odds of `errors` out of `chances`: ln((k + ½) / (N − k + ½)).
double log_odds(std::int64_t errors, std::int64_t chances);
/// Its variance from counting alone, to first order: 1/(k + ½) + 1/(N − k + ½).
double log_odds_variance(std::int64_t errors, std::int64_t chances);

}  // namespace ssa
