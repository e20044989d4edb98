// The two theorems about one dominating score (arXiv 2508.14685), measured in double for every
// scoring function: how fast 1 − p_max falls when all scores are magnified or one grows alone.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ssa/score_info.h"

namespace ssa {

/// One curve log(1 − p_max) over x with its slope in the tail, as predicted and as measured.
struct TheoremCurve {
  std::string theorem;         ///< "magnification": x·row; "disproportion": x beside the row
  std::string score;           ///< name of the scoring function
  std::vector<double> params;  ///< in the score's order
  std::string case_name;       ///< what the dominating score competes with
  std::vector<double> row;     ///< the fixed scores
  bool log_axis = false;       ///< slopes are per unit of log x (a power law) instead of x
  std::vector<double> x;
  std::vector<double> log_miss;  ///< log(1 − p_max), natural
  double fit_from = 0;           ///< the slope is fitted to the points with x >= fit_from
  double fitted_slope = 0;
  double predicted_slope = 0;

  /// |fitted − predicted| <= tolerance · max(1, |predicted|)
  bool holds(double tolerance) const;
};

/// Leading behaviour of φ far from 0: φ(±t) = ±(linear·t + logarithmic·log t + o(log t)).
struct Growth {
  double linear_above, logarithmic_above;  ///< for t → +∞
  double linear_below, logarithmic_below;  ///< for t → −∞
};

/// Measured on φ itself at |s| = 1e9 and 2e9, so that a new score needs no entry here.
Growth measure_growth(const ScoreInfo& score, std::span<const double> params);

/// Slope of log(1 − p) of the larger of two scores x·top, x·other as x → ∞.
struct PredictedSlope {
  bool log_axis;
  double slope;
};
PredictedSlope predict_magnification(const Growth& growth, double top, double other);

/// φ(s) of that score, in double.
double phi(const ScoreInfo& score, std::span<const double> params, double s);

/// log(1 − p_top) of the row's entry `top`, without cancellation: log Σ_{j≠top} e^φ − log Σ e^φ.
double log_miss(const ScoreInfo& score, std::span<const double> params, std::span<const double> row,
                std::size_t top);

/// The scores that the theorems speak of: functions of one score at a time, without a sink.
std::vector<const ScoreInfo*> theorem_scores();

/// Both theorems for one score: magnification against positive, zero and negative competitors,
/// and disproportion.
std::vector<TheoremCurve> measure_theorems(const ScoreInfo& score, std::span<const double> params);

/// Least squares slope of y over x. Throws std::invalid_argument for fewer than two different x.
double fit_slope(std::span<const double> x, std::span<const double> y);

}  // namespace ssa
