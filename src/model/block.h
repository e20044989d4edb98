// One Transformer block: attention and MLP, each with its residual around it and its norm before it
// (GPT-2) or after the sum (BERT).
#pragma once

#include <memory>

#include "model/attention.h"
#include "model/norm.h"

namespace ssa {

/// width -> hidden width -> width, with an activation between; with a gate (SwiGLU and its like:
/// Shazeer 2020, arXiv 2002.05202) the hidden values are activation(x·c_gate)·(x·c_fc).
class Mlp : public torch::nn::Module {
 public:
  explicit Mlp(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& hidden) const;

 private:
  /// What c_proj reads.
  torch::Tensor inner(const torch::Tensor& hidden) const;

  Activation activation_;
  std::shared_ptr<Linear> c_fc_, c_gate_, c_proj_;  ///< c_gate: null without gate
};

class Block : public torch::nn::Module {
 public:
  explicit Block(const ModelConfig& config);

  torch::Tensor forward(const torch::Tensor& hidden, const SequenceContext& context);
  const ScoreParameters& score_parameters() const { return attn_->score_parameters(); }

 private:
  /// What a part makes of `input`, dropped out, with its residual.
  torch::Tensor with_residual(const torch::Tensor& input, const torch::Tensor& output) const;

  bool residual_;
  NormPlace norm_place_;
  double dropout_;
  std::shared_ptr<Norm> ln_1_, ln_2_;  ///< null without norm (ln_2 also without MLP)
  std::shared_ptr<SelfAttention> attn_;
  std::shared_ptr<Mlp> mlp_;  ///< null without MLP
};

}  // namespace ssa
