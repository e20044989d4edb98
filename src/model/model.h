// What training and evaluation know of a model. Architectures are options of ModelConfig, not
// classes.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"

namespace ssa {

/// What one attention layer saw in the last forward pass (only while recording).
struct AttentionRecord {
  torch::Tensor weights;  ///< (batch, heads, queries, keys)
};

/// Effective values of the score's parameters in one layer.
struct ScoreParameterValues {
  std::string name;      ///< "n", "b", …
  torch::Tensor values;  ///< (heads) or (1), without gradient
};

class Model : public torch::nn::Module {
 public:
  /// inputs as the task gives them -> outputs (ICL: (batch, tokens, 1)).
  virtual torch::Tensor forward(const torch::Tensor& inputs) = 0;
  /// Records the attention weights of every layer in the next forward passes (costs O(T²) memory).
  virtual void record_attention(bool on) = 0;
  virtual const std::vector<AttentionRecord>& attention_records() const = 0;
  /// [layer][parameter of the score]: what metrics.jsonl logs as min/mean/max per layer.
  virtual std::vector<std::vector<ScoreParameterValues>> score_parameters() const = 0;
  /// Weights under Hugging Face names where such a class exists (GPT-2: "h.0.attn.c_attn.weight"
  /// …), plus ours ("h.0.attn.score_n"): what model.safetensors holds. Tensors share the
  /// parameters' storage.
  virtual std::vector<std::pair<std::string, torch::Tensor>> named_weights() const = 0;
  /// Whether weight decay acts on that parameter: not on norms, biases and score parameters. Throws
  /// std::invalid_argument if there is none of that name.
  virtual bool decays(const std::string& parameter_name) const = 0;
};

/// A model with weights drawn from the seed; the score's parameters draw nothing, so that every
/// score starts from the same weights.
std::shared_ptr<Model> make_model(const ModelConfig& config, std::uint64_t seed);

}  // namespace ssa
