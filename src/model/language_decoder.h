// The decoder over token ids: GPT-2 and Nemotron language models.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/decoder.h"

namespace ssa {

/// (input = "tokens", norms before, causal): token ids -> logits of the next token. Names of files
/// are those of Hugging Face's NemotronForCausalLM where positions are rotary, else of
/// GPT2LMHeadModel.
class LanguageDecoder : public Decoder {
 public:
  explicit LanguageDecoder(const ModelConfig& config);

  /// See Model::forward. pad_id is an id like any other: what follows a sequence is not seen by it.
  /// Throws std::invalid_argument naming the value for ids outside the vocabulary, sequences of
  /// more than max_positions tokens, cu_lengths that do not divide the tokens into sequences, or
  /// targets that do not fit.
  torch::Tensor forward(const ModelInput& input) override;
  std::vector<std::pair<std::string, torch::Tensor>> named_weights() const override;
  /// Of a NemotronForCausalLM or GPT2LMHeadModel with softmax; null for what neither computes.
  Json hugging_face_config() const override;

 private:
  bool is_nemotron() const { return config().positions == "rope"; }

  torch::Tensor tokens_;  ///< wte.weight (vocabulary, width)
  torch::Tensor head_;    ///< lm_head.weight (vocabulary, width), or the same as tokens_
};

}  // namespace ssa
