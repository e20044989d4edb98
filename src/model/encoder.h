// RoBERTa style encoder with its masked-language-model head (Liu et al. 2019, arXiv 1907.11692).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/block_model.h"
#include "model/embedding.h"

namespace ssa {

/// hidden -> logits over the vocabulary: dense, GELU, norm, then the product with the token
/// embeddings, and a bias. Parameters: dense, layer_norm, bias.
class LanguageModelHead : public torch::nn::Module {
 public:
  explicit LanguageModelHead(const ModelConfig& config);
  /// (rows, width), (vocabulary, width) -> (rows, vocabulary)
  torch::Tensor forward(const torch::Tensor& hidden, const torch::Tensor& embeddings) const;

 private:
  std::shared_ptr<Linear> dense_;
  std::shared_ptr<LayerNorm> layer_norm_;
  torch::Tensor bias_;
};

/// Token ids -> logits (input = "tokens"). Embeddings of token, type and position are summed,
/// normed and dropped out; the token embeddings serve again in the head. The first token of a
/// sequence has position pad_id + 1, padding has position pad_id, as in RoBERTa. Own names are
/// those of GPT-2; named_weights has those of Hugging Face's RobertaForMaskedLM.
class Encoder : public BlockModel {
 public:
  /// Weights zero, norms one: see initialize_weights.
  explicit Encoder(const ModelConfig& config);

  /// BERT's initialisation: N(0, init_std²) for every matrix and embedding, the embeddings of
  /// padding and all biases 0.
  void initialize_weights(std::uint64_t seed);

  /// See Model::forward. Throws std::invalid_argument naming the value for ids outside the
  /// vocabulary, sequences of more than max_positions tokens, padding anywhere but at a row's end,
  /// or cu_lengths that do not divide the tokens into sequences.
  torch::Tensor forward(const ModelInput& input) override;
  /// query, key and value are three tensors there and one here, and matrices of linear layers have
  /// their outputs first: those are views.
  std::vector<std::pair<std::string, torch::Tensor>> named_weights() const override;
  /// Of a RobertaForMaskedLM with softmax; null for what it cannot be configured to compute.
  Json hugging_face_config() const override;

 private:
  /// All tokens of a batch, one after another.
  struct Rows {
    torch::Tensor ids, positions;  ///< int64 (all tokens)
    SequenceContext context;
  };
  Rows padded_rows(const torch::Tensor& ids) const;
  Rows packed_rows(const torch::Tensor& ids, const torch::Tensor& cu_lengths) const;
  torch::Tensor embedded(const Rows& rows) const;

  ModelConfig config_;
  torch::Tensor tokens_;     ///< wte.weight (vocabulary, width)
  torch::Tensor positions_;  ///< wpe.weight (pad_id + 1 + max_positions, width)
  torch::Tensor types_;      ///< wtt.weight (token_types, width); undefined without types
  std::shared_ptr<LayerNorm> ln_e_;
  std::shared_ptr<LanguageModelHead> lm_head_;
};

}  // namespace ssa
