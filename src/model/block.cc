#include "model/block.h"

#include <torch/types.h>

#include "model/activation.h"
#include "model/dropout_add.h"
#include "model/gelu.h"

namespace ssa {

Mlp::Mlp(const ModelConfig& config) : activation_(config.activation) {
  const auto linear = [&](const char* name, std::int64_t inputs, std::int64_t outputs) {
    return register_module(name, std::make_shared<Linear>(inputs, outputs, config.mlp_bias()));
  };
  c_fc_ = linear("c_fc", config.width, config.hidden_width());
  if (config.mlp_gate) c_gate_ = linear("c_gate", config.width, config.hidden_width());
  c_proj_ = linear("c_proj", config.hidden_width(), config.width);
}

torch::Tensor Mlp::inner(const torch::Tensor& hidden) const {
  if (c_gate_) return activated(c_gate_->forward(hidden), activation_) * c_fc_->forward(hidden);
  if (activation_ == Activation::gelu_tanh && c_fc_->has_bias()) {
    return bias_gelu(c_fc_->product(hidden), c_fc_->bias());  // both in one pass over memory
  }
  return activated(c_fc_->forward(hidden), activation_);
}

torch::Tensor Mlp::forward(const torch::Tensor& hidden) const {
  return c_proj_->forward(inner(hidden));
}

Block::Block(const ModelConfig& config)
    : residual_(config.residual),
      norm_place_(config.norm_place),
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
  if (!residual_) return apply_dropout(output, dropout_, is_training());
  return dropout_ > 0 && is_training() ? dropout_add(output, input, dropout_) : input + output;
}

torch::Tensor Block::forward(const torch::Tensor& hidden, const SequenceContext& context) {
  const auto around = [&](const torch::Tensor& input, const std::shared_ptr<Norm>& norm,
                          const auto& part) {
    switch (norm_place_) {
      case NormPlace::before:
        return with_residual(input, part(normalized(norm, input)));
      case NormPlace::after:
        break;
    }
    return normalized(norm, with_residual(input, part(input)));
  };
  const torch::Tensor mixed =
      around(hidden, ln_1_, [&](const auto& x) { return attn_->forward(x, context); });
  if (!mlp_) return mixed;
  return around(mixed, ln_2_, [&](const auto& x) { return mlp_->forward(x); });
}

}  // namespace ssa
