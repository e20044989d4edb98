// What a run draws from its seed: who may use which Philox counters, and normal deviates that have
// the same bits on every machine.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "ssa/philox.h"

namespace ssa {

/// Word 3 of the counter of every draw keyed by a run's seed holds one of these in its low 8 bits,
/// so that no two purposes share numbers.
enum class RandomStream : std::uint32_t {
  weights = 0,
  training = 1,
  validation = 2,
  evaluation = 3,
  order = 4,
  generation = 5,
  dropout = 6
};

namespace random_internal {

// Only +, ×, ÷, sqrt and fma, which IEEE 754 rounds in one way: log, sin and cos of C libraries
// differ in the last bit. Every product that a sum follows is written as fma, so that compilers
// that contract (g++ on AArch64) have nothing left to choose.

/// log u for 0 < u < 1, by the series of 2·artanh s, |s| <= 0.172: 12 terms leave less than 2⁻⁵⁶.
inline double natural_log(double u) {
  int exponent;
  double mantissa = std::frexp(u, &exponent);
  if (mantissa < std::numbers::sqrt2 / 2) {
    mantissa *= 2;
    --exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1);
  const double square = s * s;
  double sum = 1.0 / 23;
  for (int k = 21; k >= 1; k -= 2) sum = std::fma(sum, square, 1.0 / k);
  return std::fma(exponent, std::numbers::ln2, 2 * s * sum);
}

/// The point of the unit circle at (word + 1/2)/2³² of a turn, by Taylor's series in a quadrant.
inline std::array<double, 2> circle_point(std::uint32_t word) {
  const double angle =
      ((word & 0x3fffffff) + 0.5) * (0x1p-30 * (std::numbers::pi / 2));  // in (0, π/2)
  const double square = angle * angle;
  double cosine = 1, sine = 1;
  for (int k = 24; k >= 2; k -= 2) {  // the first term left out is below 2⁻⁵³ at π/2
    cosine = std::fma(-square / (k * (k - 1)), cosine, 1.0);
    sine = std::fma(-square / (k * (k + 1)), sine, 1.0);
  }
  sine *= angle;
  switch (word >> 30) {
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
}

}  // namespace random_internal

/// Four independent N(0,1) numbers for this counter, from one Philox call (Box and Muller, 1958).
/// None is 0, none is above 6.8.
inline std::array<double, 4> normal_deviates(std::uint64_t key, PhiloxWords counter) {
  const PhiloxWords words = philox4x32(key, counter);
  std::array<double, 4> out;
  for (std::size_t pair = 0; pair < 2; ++pair) {
    const double log_unit = random_internal::natural_log(philox_unit(words[2 * pair]));
    const double radius = std::sqrt(-2 * log_unit);
    const auto point = random_internal::circle_point(words[2 * pair + 1]);
    out[2 * pair] = radius * point[0];
    out[2 * pair + 1] = radius * point[1];
  }
  return out;
}

}  // namespace ssa
