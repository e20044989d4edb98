// Rotary position embedding (Su et al. 2021, arXiv 2104.09864).
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace ssa {

/// cos and sin of position·10000^(−2i/D) for i < D/2, each (positions, 1, D/2), double.
struct RotaryTable {
  RotaryTable(std::int64_t positions, std::int64_t head_dim);

  torch::Tensor cosine, sine;
};

/// Rotates dimensions i and i + D/2 of each head by the angle of its position (the pairing of
/// GPT-NeoX and Llama). heads: (batch, length, heads, D) -> the same shape, contiguous.
torch::Tensor rotate(const torch::Tensor& heads, const RotaryTable& table);

}  // namespace ssa
