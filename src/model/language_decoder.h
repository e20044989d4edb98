// The decoder over token ids: GPT-2, Nemotron, Llama and their like.
#pragma once

#include "model/decoder.h"

namespace ssa {

/// (input = "tokens", norms before, causal): token ids -> logits of the next token.
class LanguageDecoder : public Decoder {
 public:
  explicit LanguageDecoder(const ModelConfig& config);

  /// See Model. pad_id is an id like any other: what follows a sequence is not seen by it. Throws
  /// std::invalid_argument naming the value for ids outside the vocabulary, sequences of more than
  /// max_positions tokens, or cu_lengths that do not divide the tokens into sequences.
  torch::Tensor hidden(const ModelInput& input) override;
  torch::Tensor logits(const torch::Tensor& hidden) override;
  /// linear_cross_entropy. Throws std::invalid_argument for targets that do not fit.
  torch::Tensor losses(const torch::Tensor& hidden, const torch::Tensor& targets) override;

 private:
  torch::Tensor tokens_;  ///< wte.weight (vocabulary, width)
  torch::Tensor head_;    ///< lm_head.weight (vocabulary, width), or the same as tokens_
};

}  // namespace ssa
