#include "model/number_decoder.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <cmath>

#include "model/device.h"
#include "model/initial_weights.h"
#include "ssa/check.h"

namespace ssa {

NumberDecoder::NumberDecoder(const ModelConfig& config)
    : Decoder(config),
      read_in_(register_module("read_in", std::make_shared<Linear>(1, config.width))) {
  add_decoder();
  read_out_ = register_module("read_out", std::make_shared<Linear>(config.width, 1));
}

void NumberDecoder::initialize_weights(std::uint64_t seed) {
  Decoder::initialize_weights(seed);
  const auto uniform = [&](const char* name, const Linear& layer, double bound) {
    for (const auto& parameter : layer.named_parameters()) {
      draw_uniform(parameter.value(), fmt::format("{}.{}", name, parameter.key()), seed, bound);
    }
  };
  uniform("read_in", *read_in_, 1.0);
  uniform("read_out", *read_out_, 1 / std::sqrt(config().width));
}

torch::Tensor NumberDecoder::hidden(const ModelInput& input) {
  const torch::Tensor& numbers = input.tokens;
  SSA_CHECK(numbers.dim() == 3 && numbers.size(2) == 1,
            "model: inputs of shape (batch, tokens, 1) expected, not " << numbers.sizes());
  SSA_CHECK(!input.cu_lengths.defined() && !input.wanted.defined() && input.caches.empty(),
            "model: sequences of numbers come neither packed nor with wanted tokens or a cache");
  const SequenceContext context{.batch = numbers.size(0), .length = numbers.size(1)};
  const torch::Tensor rows =
      on_device(numbers.reshape({-1, 1}), read_in_->parameters()[0].device());
  return decoded(read_in_->forward(rows), context);
}

torch::Tensor NumberDecoder::logits(const torch::Tensor& hidden) {
  return read_out_->forward(hidden);
}

torch::Tensor NumberDecoder::losses(const torch::Tensor&, const torch::Tensor&) {
  SSA_CHECK(false, "model: sequences of numbers have no vocabulary to lose against");
  return {};
}

}  // namespace ssa
