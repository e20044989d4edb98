// One Transformer block: attention and MLP, each with its residual around it and its norm before it
// (GPT-2) or after the sum (BERT).
#pragma once

#include <torch/nn/modules/normalization.h>

#include <memory>

#include "model/attention.h"

namespace ssa {

/// width -> hidden width -> width, with GELU by the error function (Hugging Face's "gelu") or in
/// its tanh form (GPT-2's "gelu_new") between.
class Mlp : public torch::nn::Module {
 public:
  explicit Mlp(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& hidden) const;

 private:
  bool tanh_form_;
  std::shared_ptr<Linear> c_fc_, c_proj_;
};

/// LayerNorm over the width, or an empty holder where the model has no norm.
torch::nn::LayerNorm make_norm(const ModelConfig& config);
/// The norm applied, or the input itself where there is none.
torch::Tensor normalized(torch::nn::LayerNorm norm, const torch::Tensor& hidden);

class Block : public torch::nn::Module {
 public:
  explicit Block(const ModelConfig& config);

  torch::Tensor forward(const torch::Tensor& hidden, const SequenceContext& context);
  const ScoreParameters& score_parameters() const { return attn_->score_parameters(); }

 private:
  /// What a part makes of `input`, dropped out, with its residual.
  torch::Tensor with_residual(const torch::Tensor& input, const torch::Tensor& output) const;

  bool residual_, norm_after_;
  double dropout_;
  torch::nn::LayerNorm ln_1_, ln_2_;  ///< empty without norm (ln_2 also without MLP)
  std::shared_ptr<SelfAttention> attn_;
  std::shared_ptr<Mlp> mlp_;  ///< null without MLP
};

}  // namespace ssa
