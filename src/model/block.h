// One Transformer block: attention and MLP, each with its norm before it and its residual around
// it.
#pragma once

#include <torch/nn/modules/normalization.h>

#include <memory>

#include "model/attention.h"

namespace ssa {

/// width -> hidden width -> width, with GELU in its tanh form (GPT-2's gelu_new).
class Mlp : public torch::nn::Module {
 public:
  explicit Mlp(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& hidden) const;

 private:
  double dropout_;
  std::shared_ptr<Linear> c_fc_, c_proj_;
};

/// LayerNorm as GPT-2 has it (ε = 10⁻⁵), or an empty holder where the model has no norm.
torch::nn::LayerNorm make_norm(const ModelConfig& config);
/// The norm applied, or the input itself where there is none.
torch::Tensor normalized(torch::nn::LayerNorm norm, const torch::Tensor& hidden);

class Block : public torch::nn::Module {
 public:
  explicit Block(const ModelConfig& config);

  torch::Tensor forward(const torch::Tensor& hidden, const SequenceContext& context);
  const ScoreParameters& score_parameters() const { return attn_->score_parameters(); }

 private:
  bool residual_;
  torch::nn::LayerNorm ln_1_, ln_2_;  ///< empty without norm (ln_2 also without MLP)
  std::shared_ptr<SelfAttention> attn_;
  std::shared_ptr<Mlp> mlp_;  ///< null without MLP
};

}  // namespace ssa
