// Self-attention of one block, around the operator ssa::attention.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/key_value_cache.h"
#include "model/linear.h"
#include "model/norm.h"
#include "model/rotary.h"
#include "model/score_parameters.h"

namespace ssa {

/// What every layer of one forward pass needs beyond the hidden states, which are (batch · length,
/// width) throughout. Packed sequences are one batch row, with all their tokens as its length.
struct SequenceContext {
  std::int64_t batch = 0, length = 0;
  std::optional<torch::Tensor> key_lengths = {};    ///< int64 (batch): tokens before the padding
  std::optional<torch::Tensor> cu_lengths = {};     ///< int64 (sequences + 1), of packed sequences
  std::optional<Rotation> rotation = {};            ///< of the tokens; none: no rotary positions
  std::vector<KeyValueCache*> caches = {};          ///< see ModelInput
  std::int64_t layer = 0;                           ///< the block's number
  std::vector<AttentionRecord>* records = nullptr;  ///< where each layer appends its weights
};

/// Modules: c_attn (query, key and value in one), c_proj, q_norm and k_norm if there are such, and
/// those of the score.
class SelfAttention : public torch::nn::Module {
 public:
  explicit SelfAttention(const ModelConfig& config);

  /// (batch · length, width) -> the same
  torch::Tensor forward(const torch::Tensor& hidden, const SequenceContext& context) const;
  const ScoreParameters& score_parameters() const { return score_parameters_; }

 private:
  AttentionOptions options(const SequenceContext& context) const;

  ModelConfig config_;
  std::int64_t heads_, kv_heads_, head_dim_;
  std::shared_ptr<Linear> c_attn_, c_proj_;
  std::shared_ptr<Norm> q_norm_, k_norm_;  ///< null without
  ScoreParameters score_parameters_;
};

}  // namespace ssa
