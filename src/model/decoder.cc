#include "model/decoder.h"

#include <torch/torch.h>

#include <cmath>

#include "model/embedding.h"
#include "model/initial_weights.h"
#include "ssa/check.h"

namespace ssa {

Decoder::Decoder(const ModelConfig& config)
    : config_(config),
      read_in_(register_module("read_in", std::make_shared<Linear>(1, config.width))),
      ln_f_(config.norm_place == "before" ? make_norm(config) : nullptr) {
  if (config.positions == "learned") {
    positions_ =
        register_module("wpe", std::make_shared<Embedding>(config.max_positions, config.width))
            ->weight();
  } else if (config.positions == "rope") {
    rotary_.emplace(config.max_positions, config.head_dim());
  }
  add_blocks(config);
  if (!ln_f_.is_empty()) register_module("ln_f", ln_f_);
  read_out_ = register_module("read_out", std::make_shared<Linear>(config.width, 1));
}

void Decoder::initialize_weights(std::uint64_t seed) {
  const double to_residual = config_.residual ? 1 / std::sqrt(2.0 * config_.layers) : 1.0;
  for (const auto& parameter : named_parameters()) {
    const std::string& name = parameter.key();
    if (name.starts_with("read_in.")) {
      draw_uniform(parameter.value(), name, seed, 1.0);
    } else if (name.starts_with("read_out.")) {
      draw_uniform(parameter.value(), name, seed, 1 / std::sqrt(config_.width));
    } else if (decays(name)) {  // a matrix; norms, biases and the score's parameters stay
      const bool writes_residual = name.ends_with(".c_proj.weight");
      draw_normal(parameter.value(), name, seed,
                  config_.init_std * (writes_residual ? to_residual : 1.0));
    }
  }
}

torch::Tensor Decoder::forward(const ModelInput& input) {
  const torch::Tensor& numbers = input.tokens;
  SSA_CHECK(numbers.dim() == 3 && numbers.size(2) == 1,
            "model: inputs of shape (batch, tokens, 1) expected, not " << numbers.sizes());
  SSA_CHECK(!input.cu_lengths.defined() && !input.wanted.defined(),
            "model: sequences of numbers come neither packed nor with wanted tokens");
  const SequenceContext context{
      .batch = numbers.size(0), .length = numbers.size(1), .rotary = rotary_ ? &*rotary_ : nullptr};
  SSA_CHECK(context.length <= config_.max_positions,
            "model: a sequence of " << context.length << " tokens, but model.max_positions = "
                                    << config_.max_positions);

  torch::Tensor hidden = read_in_->forward(numbers.reshape({-1, 1}));
  if (positions_.defined()) {
    const torch::Tensor positions = positions_.narrow(0, 0, context.length);
    hidden = (hidden.view({context.batch, context.length, config_.width}) + positions)
                 .view({-1, config_.width});
  }
  hidden = through_blocks(torch::dropout(hidden, config_.dropout, is_training()), context);
  return read_out_->forward(normalized(ln_f_, hidden)).view({context.batch, context.length, 1});
}

}  // namespace ssa
