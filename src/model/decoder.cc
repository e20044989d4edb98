#include "model/decoder.h"

#include <torch/torch.h>

#include <cmath>

#include "model/embedding.h"
#include "model/initial_weights.h"
#include "ssa/check.h"

namespace ssa {

void Decoder::add_decoder() {
  if (config_.positions == "learned") {
    positions_ =
        register_module("wpe", std::make_shared<Embedding>(config_.max_positions, config_.width))
            ->weight();
  } else if (config_.positions == "rope") {
    rotary_.emplace(config_.max_positions, config_.rotary_dim());
  }
  add_blocks(config_);
  if (config_.norm_place == "before") ln_f_ = make_norm(config_);
  if (ln_f_) register_module("ln_f", ln_f_);
}

void Decoder::initialize_weights(std::uint64_t seed) {
  const double to_residual = config_.residual ? 1 / std::sqrt(2.0 * config_.layers) : 1.0;
  for (const auto& parameter : named_parameters()) {
    const std::string& name = parameter.key();
    if (!decays(name)) continue;  // norms, biases and the score's parameters stay
    const bool writes_residual = name.ends_with(".c_proj.weight");
    draw_normal(parameter.value(), name, seed,
                config_.init_std * (writes_residual ? to_residual : 1.0));
  }
}

torch::Tensor Decoder::decoded(const torch::Tensor& embedded, SequenceContext context,
                               const torch::Tensor& places) {
  const std::int64_t first = context.cache == nullptr ? 0 : context.cache->length();
  SSA_CHECK(places.defined() || first + context.length <= config_.max_positions,
            "model: a sequence of "
                << first + context.length
                << " tokens, but model.max_positions = " << config_.max_positions);
  torch::Tensor hidden = embedded;
  if (positions_.defined()) {
    const torch::Tensor positions = places.defined() ? torch::embedding(positions_, places)
                                                     : positions_.narrow(0, first, context.length);
    hidden = (hidden.view({context.batch, context.length, config_.width}) + positions)
                 .view({-1, config_.width});
  }
  if (rotary_) {
    const auto type = embedded.scalar_type();
    context.rotation =
        places.defined() ? rotary_->at(places, type) : rotary_->at(first, context.length, type);
  }
  hidden = torch::dropout(hidden, config_.dropout, is_training());
  hidden = normalized(ln_f_, through_blocks(hidden, context));
  if (context.cache != nullptr) context.cache->advance(context.length);
  return hidden;
}

}  // namespace ssa
