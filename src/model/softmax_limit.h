// Which parametrised scoring functions contain softmax as a limit, and how they reach it: what
// turns a model of softmax into one of another score that still computes what it did. The same
// rules are in python/ssa_attention/softmax_limits.py.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ssa/score_parametrisation.h"

namespace ssa {

/// A score's path of one coordinate x ≥ 0 that reaches softmax at x = 0:
///   ssa          x = 1/n, b = slope/n    sgn(s)·n·log(1 + |s|/n) = s − sgn(s)·s²·x/2 + …
///   softcap      x = 1/c                 c·tanh(s/c) = s − s³·x²/3 + …
///   entmax       x = alpha − 1           (1 + x·(s − u))^(1/x) → exp(s − u)
///   sink         x = e^z                 e^z in the normaliser → 0
///   temperature  x = 1 − 1/tau           s/tau = s − s·x
/// Values are in the score's order. slope is φ'(0), 1 for softmax's; only ssa has one of its own.
class SoftmaxLimit {
 public:
  /// Nothing for a score that does not contain softmax.
  static std::optional<SoftmaxLimit> of(const std::string& score);

  std::vector<double> values(double x, double slope) const;
  double coordinate(const std::vector<double>& values) const;
  double slope(const std::vector<double>& values) const;
  /// By how much the logarithm of a score's weight leaves softmax's there, for a score of that size
  /// (ssa, softcap, temperature: |s|; entmax: √(d·(d + 2h)) of a score d below its row's largest,
  /// whose softmax weight is e^−h; sink: −log Σ exp(s)).
  double departure(double x, double size) const;
  /// The least x that is used: what lies nearer would lose more to rounding in float32 than it
  /// gains.
  double nearest(double size) const;
  /// The largest x of the path under that parametrisation.
  double furthest(double size, Parametrisation how) const;

 private:
  enum class Kind { ssa, softcap, entmax, sink, temperature };
  explicit SoftmaxLimit(Kind kind) : kind_(kind) {}

  Kind kind_;
};

/// The size of scores where no text tells it: above the largest |s| of most heads of
/// SmolLM2-135M.
inline constexpr double kRuleSize = 16.0;

/// Values of the score's parameters at which it departs from softmax by `strength` ≥ 0 for scores
/// of that size; 0: as near as float32 keeps digits for. ssa has n·b = 1. Throws
/// std::invalid_argument for a strength that is negative or not finite, and for a score that does
/// not contain softmax, naming those that do.
std::vector<double> match_softmax(const std::string& score, double size, double strength,
                                  Parametrisation how);

}  // namespace ssa
