// Error figures of predictions on in-context sequences, with standard errors over sequences.
#pragma once

#include <torch/types.h>

#include <optional>
#include <string>
#include <vector>

namespace ssa {

/// One figure of one predictor (docs/formats.md names the metrics).
struct Figure {
  std::string metric;
  double mean = 0;
  double standard_error = 0;               ///< over sequences; NaN for a single one
  std::int64_t items = 0;                  ///< pairs (sequence, position), or sequences
  std::optional<std::int64_t> wrong = {};  ///< of these, where each is either right or wrong
  std::vector<double> per_position;        ///< empty where it does not belong to the figure
};

/// Figures of whole sequences, or, with a planted value at (0-based) `planted`, of the parts
/// before, at and after it; a part without positions has no figure.
/// predictions and targets: (sequences, points), any floating type; computed in double.
///
/// Quantifiers: wrong, sequence-wrong. A prediction is right if it has the target's sign, so 0 and
/// NaN are wrong.
std::vector<Figure> quantifier_figures(const torch::Tensor& predictions,
                                       const torch::Tensor& targets,
                                       std::optional<std::int64_t> planted = {});

/// Linear functions: squared-error and relative-error, over positions that have two pairs before
/// them, since fewer do not determine a line.
std::vector<Figure> linear_figures(const torch::Tensor& predictions, const torch::Tensor& targets,
                                   std::optional<std::int64_t> planted = {});

}  // namespace ssa
