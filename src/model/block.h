// One Transformer block: attention and MLP, each with its residual around it and its norm before it
// (GPT-2) or after the sum (BERT).
#pragma once

#include <memory>
#include <string>

#include "model/attention.h"
#include "model/norm.h"

namespace ssa {

/// width -> hidden width -> width, with GELU by the error function (Hugging Face's "gelu"), in its
/// tanh form (GPT-2's "gelu_new") or the squared ReLU ("relu2": So et al. 2021, arXiv 2109.08668)
/// between.
class Mlp : public torch::nn::Module {
 public:
  explicit Mlp(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& hidden) const;

 private:
  torch::Tensor activated(const torch::Tensor& hidden) const;

  std::string activation_;
  std::shared_ptr<Linear> c_fc_, c_proj_;
};

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
  std::shared_ptr<LayerNorm> ln_1_, ln_2_;  ///< null without norm (ln_2 also without MLP)
  std::shared_ptr<SelfAttention> attn_;
  std::shared_ptr<Mlp> mlp_;  ///< null without MLP
};

}  // namespace ssa
