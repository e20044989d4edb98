#include "model/block.h"

#include <torch/torch.h>

#include "model/dropout_add.h"
#include "model/gelu.h"

namespace ssa {

Mlp::Mlp(const ModelConfig& config)
    : activation_(config.activation),
      c_fc_(register_module("c_fc", std::make_shared<Linear>(config.width, config.hidden_width(),
                                                             config.linear_bias))),
      c_proj_(register_module(
          "c_proj",
          std::make_shared<Linear>(config.hidden_width(), config.width, config.linear_bias))) {}

torch::Tensor Mlp::activated(const torch::Tensor& hidden) const {
  if (activation_ == "gelu-tanh") {
    return c_fc_->has_bias() ? bias_gelu(c_fc_->product(hidden), c_fc_->bias())
                             : torch::gelu(c_fc_->product(hidden), "tanh");
  }
  const torch::Tensor inner = c_fc_->forward(hidden);
  return activation_ == "gelu" ? torch::gelu(inner) : torch::relu(inner).square();
}

torch::Tensor Mlp::forward(const torch::Tensor& hidden) const {
  return c_proj_->forward(activated(hidden));
}

Block::Block(const ModelConfig& config)
    : residual_(config.residual),
      norm_after_(config.norm_place == "after"),
      dropout_(config.dropout),
      ln_1_(make_norm(config)),
      ln_2_(config.mlp ? make_norm(config) : nullptr),
      attn_(std::make_shared<SelfAttention>(config)),
      mlp_(config.mlp ? std::make_shared<Mlp>(config) : nullptr) {
  if (ln_1_) register_module("ln_1", ln_1_);
  register_module("attn", attn_);
  if (ln_2_) register_module("ln_2", ln_2_);
  if (mlp_) register_module("mlp", mlp_);
}

torch::Tensor Block::with_residual(const torch::Tensor& input, const torch::Tensor& output) const {
  if (!residual_) return torch::dropout(output, dropout_, is_training());
  return dropout_ > 0 && is_training() ? dropout_add(output, input, dropout_) : input + output;
}

torch::Tensor Block::forward(const torch::Tensor& hidden, const SequenceContext& context) {
  const auto around = [&](const torch::Tensor& input, const std::shared_ptr<LayerNorm>& norm,
                          const auto& part) {
    const torch::Tensor output = part(norm_after_ ? input : normalized(norm, input));
    const torch::Tensor sum = with_residual(input, output);
    return norm_after_ ? normalized(norm, sum) : sum;
  };
  const torch::Tensor mixed =
      around(hidden, ln_1_, [&](const auto& x) { return attn_->forward(x, context); });
  if (!mlp_) return mixed;
  return around(mixed, ln_2_, [&](const auto& x) { return mlp_->forward(x); });
}

}  // namespace ssa
