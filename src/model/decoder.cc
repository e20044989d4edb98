#include "model/decoder.h"

#include <torch/torch.h>

#include <cmath>

#include "model/initial_weights.h"
#include "ssa/check.h"

namespace ssa {
namespace {

/// GPT-2's name "wpe.weight" for the positions.
class PositionEmbedding : public torch::nn::Module {
 public:
  PositionEmbedding(std::int64_t positions, std::int64_t width)
      : weight(register_parameter("weight", torch::zeros({positions, width}))) {}
  torch::Tensor weight;
};

}  // namespace

Decoder::Decoder(const ModelConfig& config)
    : config_(config),
      read_in_(register_module("read_in", std::make_shared<Linear>(1, config.width))),
      ln_f_(make_norm(config)) {
  if (config.positions == "learned") {
    positions_ = register_module(
                     "wpe", std::make_shared<PositionEmbedding>(config.max_positions, config.width))
                     ->weight;
  } else if (config.positions == "rope") {
    rotary_.emplace(config.max_positions, config.head_dim());
  }
  const auto list = register_module("h", torch::nn::ModuleList());
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    blocks_.push_back(std::make_shared<Block>(config));
    list->push_back(blocks_.back());
  }
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

torch::Tensor Decoder::forward(const torch::Tensor& inputs) {
  SSA_CHECK(inputs.dim() == 3 && inputs.size(2) == 1,
            "model: inputs of shape (batch, tokens, 1) expected, not " << inputs.sizes());
  const SequenceContext context{.batch = inputs.size(0),
                                .length = inputs.size(1),
                                .rotary = rotary_ ? &*rotary_ : nullptr,
                                .records = recording_ ? &records_ : nullptr};
  SSA_CHECK(context.length <= config_.max_positions,
            "model: a sequence of " << context.length << " tokens, but model.max_positions = "
                                    << config_.max_positions);
  records_.clear();

  torch::Tensor hidden = read_in_->forward(inputs.reshape({-1, 1}));
  if (positions_.defined()) {
    const torch::Tensor positions = positions_.narrow(0, 0, context.length);
    hidden = (hidden.view({context.batch, context.length, config_.width}) + positions)
                 .view({-1, config_.width});
  }
  hidden = torch::dropout(hidden, config_.dropout, is_training());
  for (const auto& block : blocks_) hidden = block->forward(hidden, context);
  return read_out_->forward(normalized(ln_f_, hidden)).view({context.batch, context.length, 1});
}

void Decoder::record_attention(bool on) {
  recording_ = on;
  records_.clear();
}

std::vector<std::vector<ScoreParameterValues>> Decoder::score_parameters() const {
  std::vector<std::vector<ScoreParameterValues>> layers;
  for (const auto& block : blocks_) layers.push_back(block->score_parameters().named_values());
  return layers;
}

std::vector<std::pair<std::string, torch::Tensor>> Decoder::named_weights() const {
  std::vector<std::pair<std::string, torch::Tensor>> out;
  for (const auto& parameter : named_parameters())
    out.emplace_back(parameter.key(), parameter.value());
  for (const auto& frozen : named_buffers()) out.emplace_back(frozen.key(), frozen.value());
  return out;
}

bool Decoder::decays(const std::string& parameter_name) const {
  const auto parameters = named_parameters();
  const torch::Tensor* parameter = parameters.find(parameter_name);
  SSA_CHECK(parameter != nullptr, "model: no parameter is called " << parameter_name);
  return parameter->dim() >= 2;  // norms, biases and the score's parameters are vectors
}

std::shared_ptr<Model> make_model(const ModelConfig& config, std::uint64_t seed) {
  auto model = std::make_shared<Decoder>(config);
  model->initialize_weights(seed);
  return model;
}

}  // namespace ssa
