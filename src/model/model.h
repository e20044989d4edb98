// What training and evaluation know of a model. Architectures are options of ModelConfig; there are
// as many classes as ways to read a sequence in and predictions out.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "op/attention.h"

namespace ssa {

class KeyValueCache;

/// A batch of sequences, as a task gives them: on the CPU, where it is checked; the model copies it
/// to its device.
struct ModelInput {
  /// Implicit, because a tensor alone is an input.
  ModelInput(torch::Tensor tokens, torch::Tensor cu_lengths = {}, torch::Tensor wanted = {},
             std::vector<KeyValueCache*> caches = {})
      : tokens(std::move(tokens)),
        cu_lengths(std::move(cu_lengths)),
        wanted(std::move(wanted)),
        caches(std::move(caches)) {}

  /// Numbers: (batch, tokens, 1). Token ids: int64, (batch, tokens) with pad_id after a sequence's
  /// end, or (all tokens) of packed sequences.
  torch::Tensor tokens;
  /// int64 (sequences + 1): packed sequence s is tokens cu_lengths[s] … cu_lengths[s + 1] − 1.
  /// Undefined: tokens are not packed.
  torch::Tensor cu_lengths;
  /// int64 (any number): the tokens whose outputs are computed, counted row after row. Undefined:
  /// all.
  torch::Tensor wanted;
  /// Of language decoders, with packed sequences: one for each, which holds the tokens before
  /// these, and these afterwards. Empty: there are none before.
  std::vector<KeyValueCache*> caches;
};

/// What one attention layer saw in the last forward pass (only while recording).
struct AttentionRecord {
  torch::Tensor weights;  ///< (batch, heads, queries, keys)
  /// As the operator has them; packed sequences are one batch row.
  torch::Tensor query = {}, key = {};
  AttentionOptions options = {};  ///< the same, but for where packed sequences begin
};

/// Effective values of the score's parameters in one layer.
struct ScoreParameterValues {
  std::string name;       ///< "n", "b", …
  torch::Tensor values;   ///< (heads) or (1), without gradient
  const ParamInfo* info;  ///< its range
};

class Model : public torch::nn::Module {
 public:
  explicit Model(ModelConfig config = {}) : config_(std::move(config)) {}
  const ModelConfig& config() const { return config_; }
  /// Where the weights are, and what comes out of the model; the CPU for a model without.
  torch::Device device() const;

  /// The hidden states that predictions are made of, (rows, width): a row for each token of the
  /// batch, one sequence after another, or for each wanted token. Throws std::invalid_argument for
  /// what the model cannot read.
  virtual torch::Tensor hidden(const ModelInput& input) = 0;
  /// (rows, width) -> (rows, vocabulary); of models of numbers (rows, 1), the predictions.
  virtual torch::Tensor logits(const torch::Tensor& hidden) = 0;
  /// −log softmax(logits)[target] of each row: (rows, width), int64 (rows) -> (rows). May take less
  /// memory than logits; some models' losses can be summed and averaged only
  /// (linear_cross_entropy).
  virtual torch::Tensor losses(const torch::Tensor& hidden, const torch::Tensor& targets);
  /// logits(hidden(input)), (batch, tokens, vocabulary or 1); of packed sequences and wanted tokens
  /// one row each.
  virtual torch::Tensor forward(const ModelInput& input);
  /// Records the attention weights of every layer in the next forward passes (costs O(T²) memory).
  virtual void record_attention(bool on) = 0;
  virtual const std::vector<AttentionRecord>& attention_records() const = 0;
  /// Whether training keeps only what each block reads and computes the rest again in the backward
  /// pass.
  virtual void recompute_blocks(bool /*on*/) {}
  /// [layer][parameter of the score]: what metrics.jsonl logs as min/mean/max per layer.
  virtual std::vector<std::vector<ScoreParameterValues>> score_parameters() const = 0;
  /// Gives the score's parameters these values, in its order, in all layers and heads.
  virtual void set_score_parameters(const std::vector<double>& /*values*/) {}
  /// The same, of one layer: a value a head of each, or one where the heads share it.
  virtual void set_score_parameters(std::size_t /*layer*/,
                                    const std::vector<std::vector<double>>& /*values*/) {}
  /// Weights under Hugging Face names where such a class exists (GPT-2: "h.0.attn.c_attn.weight"
  /// …), plus ours ("h.0.attn.score_n"): what model.safetensors holds. Tensors share the
  /// parameters' storage, strided where the layouts differ.
  virtual std::vector<std::pair<std::string, torch::Tensor>> named_weights() const = 0;
  /// Whether weight decay acts on that parameter: not on norms, biases and score parameters. Throws
  /// std::invalid_argument if there is none of that name.
  virtual bool decays(const std::string& parameter_name) const = 0;
  /// Of a weight that maps hidden states to others (no embedding, no read-out): the columns of each
  /// of the matrices that it holds side by side (query, key and value are one weight). Empty for
  /// others.
  virtual std::vector<std::int64_t> matrix_columns(const std::string& /*parameter_name*/) const {
    return {};
  }
  /// Whether it is one of the score's.
  virtual bool is_score_parameter(const std::string& /*parameter_name*/) const { return false; }
  /// The parameter's names in model.safetensors, separated by commas: what messages say.
  std::string name_in_files(const std::string& parameter_name) const;

 private:
  ModelConfig config_;
};

std::int64_t count_parameters(const Model& model);

/// A model with weights drawn from the seed; the score's parameters draw nothing, so that every
/// score starts from the same weights. Without a seed nothing is drawn: for a checkpoint to be read
/// into it (drawing those of a decoder with 114 M parameters takes longer than reading them).
std::shared_ptr<Model> make_model(const ModelConfig& config, std::optional<std::uint64_t> seed);

}  // namespace ssa
