#include "model/decoder.h"

#include <torch/types.h>

#include <cmath>

#include "model/dropout_add.h"
#include "model/embedding.h"
#include "model/initial_weights.h"
#include "ssa/check.h"

namespace ssa {

void Decoder::add_decoder() {
  switch (config().positions) {
    case Positions::learned:
      positions_ = register_module(
                       "wpe", std::make_shared<Embedding>(config().max_positions, config().width))
                       ->weight();
      break;
    case Positions::rope:
      rotary_.emplace(config());
      break;
    case Positions::none:
      break;
  }
  add_blocks();
  if (config().norm_place == NormPlace::before) ln_f_ = make_norm(config());
  if (ln_f_) register_module("ln_f", ln_f_);
}

void Decoder::initialize_weights(std::uint64_t seed) {
  const double to_residual = config().residual ? 1 / std::sqrt(2.0 * config().layers) : 1.0;
  for (const auto& parameter : named_parameters()) {
    const std::string& name = parameter.key();
    if (!decays(name)) continue;  // norms, biases and the score's parameters stay
    const bool writes_residual = name.ends_with(".c_proj.weight");
    draw_normal(parameter.value(), name, seed,
                config().init_std * (writes_residual ? to_residual : 1.0));
  }
}

torch::Tensor Decoder::decoded(const torch::Tensor& embedded, SequenceContext context,
                               const torch::Tensor& places) {
  SSA_CHECK(places.defined() || context.length <= config().max_positions,
            "model: a sequence of " << context.length << " tokens, but model.max_positions = "
                                    << config().max_positions);
  torch::Tensor hidden = embedded;
  if (positions_.defined()) {
    const torch::Tensor positions = places.defined() ? torch::embedding(positions_, places)
                                                     : positions_.narrow(0, 0, context.length);
    hidden = (hidden.view({context.batch, context.length, config().width}) + positions)
                 .view({-1, config().width});
  }
  if (rotary_) {
    context.rotation = rotary_->at(
        places.defined() ? places
                         : torch::arange(context.length, embedded.options().dtype(torch::kLong)),
        embedded.scalar_type());
  }
  hidden = apply_dropout(hidden, config().dropout, is_training());
  return normalized(ln_f_, through_blocks(hidden, context));
}

}  // namespace ssa
