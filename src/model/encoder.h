// BERT style encoders with their masked-language-model head (Devlin et al. 2019, arXiv 1810.04805;
// RoBERTa: Liu et al. 2019, arXiv 1907.11692).
#pragma once

#include <memory>

#include "model/block_model.h"
#include "model/embedding.h"

namespace ssa {

/// hidden -> logits over the vocabulary: dense, activation (RoBERTa: GELU), norm, then the product
/// with the token embeddings, and a bias. Parameters: dense, layer_norm, bias.
class LanguageModelHead : public torch::nn::Module {
 public:
  explicit LanguageModelHead(const ModelConfig& config);
  /// (rows, width), (vocabulary, width) -> (rows, vocabulary)
  torch::Tensor forward(const torch::Tensor& hidden, const torch::Tensor& embeddings) const;

 private:
  Activation activation_;
  std::shared_ptr<Linear> dense_;
  std::shared_ptr<Norm> layer_norm_;
  torch::Tensor bias_;
};

/// Token ids -> logits (input = "tokens"). Embeddings of token, type and position are summed,
/// normed and dropped out; the token embeddings serve again in the head. In RoBERTa's family the
/// first token of a sequence has position pad_id + 1 and padding has position pad_id, in BERT's
/// positions count from 0.
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
  torch::Tensor hidden(const ModelInput& input) override;
  torch::Tensor logits(const torch::Tensor& hidden) override;

 private:
  /// All tokens of a batch, one after another.
  struct Rows {
    torch::Tensor ids, positions;  ///< int64 (all tokens)
    SequenceContext context;
  };
  Rows padded_rows(const torch::Tensor& ids) const;
  Rows packed_rows(const torch::Tensor& ids, const torch::Tensor& cu_lengths) const;
  torch::Tensor embedded(const Rows& rows) const;

  torch::Tensor tokens_;     ///< wte.weight (vocabulary, width)
  torch::Tensor positions_;  ///< wpe.weight (first_position + max_positions, width)
  torch::Tensor types_;      ///< wtt.weight (token_types, width); undefined without types
  std::shared_ptr<Norm> ln_e_;
  std::shared_ptr<LanguageModelHead> lm_head_;
};

}  // namespace ssa
