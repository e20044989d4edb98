#include "model/encoder.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "model/activation.h"
#include "model/device.h"
#include "model/dropout_add.h"
#include "model/initial_weights.h"
#include "model/product.h"
#include "model/token_input.h"
#include "ssa/check.h"

namespace ssa {
namespace {

/// RoBERTa's head has GELU whatever the activation of its blocks is.
Activation head_activation(const ModelConfig& config) {
  return config.family == Family::roberta ? Activation::gelu : config.activation;
}

}  // namespace

LanguageModelHead::LanguageModelHead(const ModelConfig& config)
    : activation_(head_activation(config)),
      dense_(register_module("dense", std::make_shared<Linear>(config.width, config.width))),
      layer_norm_(make_norm(config)) {
  if (layer_norm_) register_module("layer_norm", layer_norm_);
  bias_ = register_parameter("bias", torch::zeros({config.vocabulary}));
}

torch::Tensor LanguageModelHead::forward(const torch::Tensor& hidden,
                                         const torch::Tensor& embeddings) const {
  const torch::Tensor inner =
      normalized(layer_norm_, activated(dense_->forward(hidden), activation_));
  return product_with_table(inner, embeddings, bias_);
}

Encoder::Encoder(const ModelConfig& config) : BlockModel(config), ln_e_(make_norm(config)) {
  const auto embedding = [&](const char* name, std::int64_t rows) {
    return register_module(name, std::make_shared<Embedding>(rows, config.width))->weight();
  };
  tokens_ = embedding("wte", config.vocabulary);
  positions_ = embedding("wpe", config.first_position() + config.max_positions);
  if (config.token_types > 0) types_ = embedding("wtt", config.token_types);
  if (ln_e_) register_module("ln_e", ln_e_);
  add_blocks();
  lm_head_ = register_module("lm_head", std::make_shared<LanguageModelHead>(config));
}

void Encoder::initialize_weights(std::uint64_t seed) {
  for (const auto& parameter : named_parameters()) {
    if (!decays(parameter.key())) continue;  // norms, biases and the score's parameters stay
    draw_normal(parameter.value(), parameter.key(), seed, config().init_std);
  }
  const torch::NoGradGuard no_grad;
  tokens_[config().pad_id].zero_();
  if (config().first_position() > 0) positions_[config().pad_id].zero_();
}

Encoder::Rows Encoder::padded_rows(const torch::Tensor& ids) const {
  SSA_CHECK(ids.dim() == 2,
            "model: token ids of shape (batch, tokens) expected, or (tokens) with cu_lengths, not "
                << ids.sizes());
  const torch::Tensor real = ids != config().pad_id;
  const torch::Tensor lengths = real.sum(1);
  const torch::Tensor place = torch::arange(1, ids.size(1) + 1, ids.options());
  const torch::Tensor inside = place <= lengths.unsqueeze(1);
  if (!torch::equal(real, inside)) {
    const auto where = first_true(inside & ~real);
    SSA_CHECK(false, "model: padding (token id " << config().pad_id << ") at "
                                                 << torch::IntArrayRef(where)
                                                 << ", before the end of its sequence");
  }
  check_longest(lengths, config().max_positions);
  // RoBERTa's padding has a position of its own; what BERT's has is read by nobody.
  const bool own = config().first_position() > 0;
  const torch::Tensor positions =
      own ? (place * inside + config().pad_id).flatten()
          : (place - 1).clamp_max(config().max_positions - 1).repeat(ids.size(0));
  const torch::Device device = tokens_.device();
  return {on_device(ids.flatten(), device),
          on_device(positions, device),
          {.batch = ids.size(0), .length = ids.size(1), .key_lengths = on_device(lengths, device)}};
}

Encoder::Rows Encoder::packed_rows(const torch::Tensor& ids,
                                   const torch::Tensor& cu_lengths) const {
  check_packed(ids, cu_lengths);
  const torch::Tensor padding = ids == config().pad_id;
  if (padding.any().item<bool>()) {
    const auto where = first_true(padding);
    SSA_CHECK(false, "model: padding (token id " << config().pad_id << ") at "
                                                 << torch::IntArrayRef(where)
                                                 << " of packed sequences, which have none");
  }
  check_longest(cu_lengths.diff(), config().max_positions);
  return {on_device(ids, tokens_.device()),
          on_device(places_of_packed(cu_lengths) + config().first_position(), tokens_.device()),
          {.batch = 1, .length = ids.size(0), .cu_lengths = cu_lengths}};
}

torch::Tensor Encoder::embedded(const Rows& rows) const {
  torch::Tensor sum = torch::embedding(tokens_, rows.ids, config().pad_id);
  if (types_.defined()) sum = sum + types_[0];
  const std::int64_t padding = config().first_position() - 1;  // -1: no row of padding
  sum = sum + torch::embedding(positions_, rows.positions, padding);
  return apply_dropout(normalized(ln_e_, sum), config().dropout, is_training());
}

torch::Tensor Encoder::hidden(const ModelInput& input) {
  const torch::Tensor& ids = input.tokens;
  SSA_CHECK(ids.scalar_type() == torch::kLong,
            "model: token ids must be int64, not " << ids.scalar_type());
  check_range("token id", ids, config().vocabulary, "model.vocabulary");
  const bool packed = input.cu_lengths.defined();
  const Rows rows = packed ? packed_rows(ids, input.cu_lengths) : padded_rows(ids);
  return wanted_rows(through_blocks(embedded(rows), rows.context), input);
}

torch::Tensor Encoder::logits(const torch::Tensor& hidden) {
  return lm_head_->forward(hidden, tokens_);
}

}  // namespace ssa
