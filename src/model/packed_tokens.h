// Sequences of token ids, one after another, while they are being put together.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "model/model.h"

namespace ssa {

struct PackedTokens {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> wanted;            ///< places in `tokens` whose outputs are computed
  std::vector<std::int64_t> targets;           ///< what is compared with these outputs
  std::vector<std::int64_t> cu_lengths = {0};  ///< see ModelInput

  /// What was appended to `tokens` since the last call is one sequence.
  void end_sequence() { cu_lengths.push_back(static_cast<std::int64_t>(tokens.size())); }

  ModelInput input() const { return {tensor(tokens), tensor(cu_lengths), tensor(wanted)}; }
  torch::Tensor target_ids() const { return tensor(targets); }

 private:
  static torch::Tensor tensor(const std::vector<std::int64_t>& values) {
    return torch::tensor(values, torch::kLong);
  }
};

}  // namespace ssa
