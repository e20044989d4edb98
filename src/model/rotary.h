// Rotary position embedding (Su et al. 2021, arXiv 2104.09864) and its stretching for longer texts.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "config/model_config.h"

namespace ssa {

/// cos and sin of the angles of so many tokens, times the magnitude: (tokens, 1, D/2), D dimensions
/// of a head being turned.
struct Rotation {
  torch::Tensor cosine, sine;
};

/// The angles of positions: position·f_i with f_i = base^(−2i/D), i < D/2, stretched by
/// rotary_scaling. Linear (Chen et al. 2023, arXiv 2306.15595) divides every f_i by the factor.
/// Llama 3.1's rule and YaRN (Peng et al. 2023, arXiv 2309.00071) keep the f_i that turn more than
/// rotary_high times over the original positions, divide those that turn less than rotary_low
/// times, and go from one to the other in between: Llama 3.1 linearly in the number of turns, YaRN
/// in i.
class Rotary {
 public:
  /// Of a model with positions = rope.
  explicit Rotary(const ModelConfig& config);

  /// Of those positions: int64, one dimension; float64 for float64 models, else float32.
  Rotation at(const torch::Tensor& positions, torch::ScalarType model_type) const;

 private:
  torch::Tensor frequencies_;  ///< f, double (D/2)
  double magnitude_;
};

/// Rotates dimensions i and i + D/2 of each head, i < D/2, by its token's angles (the pairing of
/// GPT-NeoX and Llama); dimensions from D on stay. heads: (batch, tokens, heads, head dimension) ->
/// the same shape and type, contiguous.
torch::Tensor rotate(const torch::Tensor& heads, const Rotation& rotation);

}  // namespace ssa
