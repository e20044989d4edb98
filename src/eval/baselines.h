// What predictors without a network reach on the same in-context sequences. All take x and y of
// shape (sequences, points), double, and return predictions of that shape; prediction i of a
// sequence uses x_i and the pairs before i only, except where a baseline says otherwise.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

namespace ssa {

/// The answer, +1 or −1, that is right more often over all of y (+1 if equally often).
torch::Tensor constant_answer(const torch::Tensor& y);

/// The answer that is right more often at each position: what ignoring the inputs can reach.
torch::Tensor answer_by_position(const torch::Tensor& y);

/// The line through the earlier pairs by least squares; of minimum norm (a, b) while they do not
/// determine one; 0 for the first.
torch::Tensor least_squares(const torch::Tensor& x, const torch::Tensor& y);

/// Mean y of the `count` earlier pairs (all, while there are fewer) whose x is nearest; the earlier
/// pair where two are equally near; 0 for the first.
torch::Tensor nearest_neighbours(const torch::Tensor& x, const torch::Tensor& y,
                                 std::int64_t count);

/// a·x_i + b with (a, b) the mean of y_j·(x_j, 1) over the earlier pairs, 0 for the first: the
/// averaging estimator of Garg et al. 2022 (arXiv 2208.01066) with the constant as second feature.
torch::Tensor averaging(const torch::Tensor& x, const torch::Tensor& y);

struct Baseline {
  std::string name;  ///< as docs/formats.md lists it
  torch::Tensor predictions;
};

/// The baselines of a quantifier (`linear` false) or of linear functions.
std::vector<Baseline> baselines(bool linear, const torch::Tensor& x, const torch::Tensor& y);

}  // namespace ssa
