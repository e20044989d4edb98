// In-context learning sequences: x_1 y_1 x_2 y_2 …, where y follows from x by a hidden rule and the
// model's output at x_i is its prediction of y_i. Training, validation and evaluation draw here.
//
// Every number is a pure function of (seed, stream, index, sequence, point), with the same
// bits on every machine and thread count. σ and the planted value enter last, so that a shifted
// batch differs from the unshifted one of the same index in nothing but the shift.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>

#include "config/choices.h"
#include "ssa/random.h"

namespace ssa {

enum class IclTask {
  every,   ///< y_i = +1 if all of x_1 … x_i are > 0, else −1
  some,    ///< y_i = +1 if any of x_1 … x_i is > 0, else −1
  linear,  ///< y_i = a·x_i + b
};

// How the quantifiers' inputs are drawn (linear functions always take N(0,1)):
//   IclSampler::plain: N(0,1): *every* is +1 at position i with probability 2⁻ⁱ, so that the
//   constant
//     −1 is wrong at 2.5 % of 40 positions and hardly anything about the rule is ever asked.
//   IclSampler::balanced: |x| as in `plain`, signs such that the answer flips at a drawn position:
//     never in a quarter of the sequences, at the first x in another quarter (the answer is
//     constant in both), uniformly in between in the rest. Each answer then holds half of all
//     positions, and between 1/4 and 3/4 of each single one; ignoring the inputs is wrong at 3/8 of
//     the positions, looking at x_1 alone at 1/4. (Flips uniform over all positions, without the
//     two quarters, would give x_1 the same sign in all but 1/points of the sequences.) After the
//     flip x is N(0,1). The default.

/// One x set to a value, whatever was drawn there; y follows the resulting row.
struct PlantedValue {
  std::int64_t position = 0;  ///< 0-based, < points
  double value = 0;
};

struct IclSpec {
  IclTask task = IclTask::every;
  IclSampler sampler = IclSampler::balanced;
  std::int64_t points = 40;
  std::int64_t sequences = 64;
  double sigma_x = 1;             ///< standard deviation of x
  double sigma_coefficients = 1;  ///< of a and b (linear only)
  std::optional<PlantedValue> planted = {};
};

struct IclSequences {
  torch::Tensor x, y;          ///< float (sequences, points)
  torch::Tensor coefficients;  ///< linear: a and b, float (sequences, 2); else undefined
};

/// Throws std::invalid_argument for a task of language.
IclTask icl_task(TaskName name);

/// index: the step in training, else the number of the batch. slice: batch of the step; slices 0
/// and 1 of n sequences are slice 0 of 2n. Throws std::invalid_argument for a slice beyond 2³²
/// sequences, a spec without points or sequences, a σ that is not > 0, a planted position outside
/// of the row or a value that is not finite.
IclSequences make_icl_sequences(const IclSpec& spec, std::uint64_t seed, RandomStream stream,
                                std::int64_t index, std::int64_t slice = 0);

/// y of the quantifiers for any x (sequences, points): +1 or −1 in x's type.
torch::Tensor quantifier_answers(IclTask task, const torch::Tensor& x);

/// x_1 y_1 x_2 y_2 … as the model reads it: (sequences, 2·points, 1).
torch::Tensor icl_tokens(const torch::Tensor& x, const torch::Tensor& y);

/// The outputs at the x positions: (sequences, 2·points, 1) -> (sequences, points).
torch::Tensor icl_predictions(const torch::Tensor& output);

}  // namespace ssa
