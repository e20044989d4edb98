// Rotary position embedding (Su et al. 2021, arXiv 2104.09864).
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace ssa {

/// cos and sin of the angles of so many tokens: (tokens, 1, D/2), D dimensions of a head being
/// turned.
struct Rotation {
  torch::Tensor cosine, sine;
};

/// The base of the angles.
inline constexpr double kRotaryBase = 10000;

class RotaryTable {
 public:
  /// For angles position·kRotaryBase^(−2i/D), i < D/2, of positions 0 … `positions` − 1.
  RotaryTable(std::int64_t positions, std::int64_t rotated_dims);

  /// Of those positions: int64, one dimension; float64 for float64 models, else float32.
  Rotation at(const torch::Tensor& positions, torch::ScalarType model_type) const;
  /// Of positions first … first + count − 1.
  Rotation at(std::int64_t first, std::int64_t count, torch::ScalarType model_type) const;

 private:
  Rotation table_;  ///< double
};

/// Rotates dimensions i and i + D/2 of each head, i < D/2, by its token's angles (the pairing of
/// GPT-NeoX and Llama); dimensions from D on stay. heads: (batch, tokens, heads, head dimension) ->
/// the same shape and type, contiguous.
torch::Tensor rotate(const torch::Tensor& heads, const Rotation& rotation);

}  // namespace ssa
