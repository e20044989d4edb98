#include "model/rotary.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/device.h"

namespace ssa {
namespace {

/// Factors that go from 1 (keep the angle) to 0 (divide it) by Llama 3.1's rule.
torch::Tensor kept_by_llama3(const ModelConfig& config, const torch::Tensor& frequencies) {
  const auto original = static_cast<double>(config.original_positions());
  const torch::Tensor turns = frequencies * (original / (2 * std::numbers::pi));
  return ((turns - config.rotary_low) / (config.rotary_high - config.rotary_low)).clamp(0, 1);
}

/// The same by YaRN, between the whole dimensions around the two bounds.
torch::Tensor kept_by_yarn(const ModelConfig& config, const torch::Tensor& frequencies) {
  const auto dims = static_cast<double>(config.rotary_dim());
  const auto original = static_cast<double>(config.original_positions());
  const auto dimension_of = [&](double turns) {
    return dims * std::log(original / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(config.rotary_base));
  };
  const double first = std::max(std::floor(dimension_of(config.rotary_high)), 0.0);
  double last = std::min(std::ceil(dimension_of(config.rotary_low)), dims - 1);
  if (first == last) last += 0.001;
  const torch::Tensor i = torch::arange(frequencies.size(0), frequencies.options());
  return 1 - ((i - first) / (last - first)).clamp(0, 1);
}

torch::Tensor stretched(const ModelConfig& config, const torch::Tensor& frequencies) {
  torch::Tensor kept;
  switch (config.rotary_scaling) {
    case RotaryScaling::none:
      return frequencies;
    case RotaryScaling::linear:
      return frequencies / config.rotary_factor;
    case RotaryScaling::llama3:
      kept = kept_by_llama3(config, frequencies);
      break;
    case RotaryScaling::yarn:
      kept = kept_by_yarn(config, frequencies);
      break;
  }
  return frequencies * (kept + (1 - kept) / config.rotary_factor);
}

double magnitude_of(const ModelConfig& config) {
  if (config.rotary_scaling != RotaryScaling::yarn) return 1.0;
  return config.rotary_magnitude > 0 ? config.rotary_magnitude
                                     : 1.0 + 0.1 * std::log(config.rotary_factor);
}

}  // namespace

Rotary::Rotary(const ModelConfig& config)
    : frequencies_(
          stretched(config, torch::exp(torch::arange(0, config.rotary_dim(), 2, torch::kFloat64) *
                                       (-std::log(config.rotary_base) / config.rotary_dim())))),
      magnitude_(magnitude_of(config)) {}

Rotation Rotary::at(const torch::Tensor& positions, torch::ScalarType model_type) const {
  const auto type = model_type == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  const torch::Tensor angles =
      torch::outer(positions.to(torch::kFloat64), on_device(frequencies_, positions.device()))
          .unsqueeze(1);
  const auto scaled = [&](const torch::Tensor& values) {
    return (magnitude_ == 1.0 ? values : values * magnitude_).to(type);
  };
  return {scaled(angles.cos()), scaled(angles.sin())};
}

torch::Tensor rotate(const torch::Tensor& heads, const Rotation& rotation) {
  const std::int64_t half = rotation.cosine.size(-1);
  const torch::Tensor first = heads.narrow(-1, 0, half), second = heads.narrow(-1, half, half);
  std::vector<torch::Tensor> parts = {first * rotation.cosine - second * rotation.sine,
                                      second * rotation.cosine + first * rotation.sine};
  if (heads.size(-1) > 2 * half) {
    parts.push_back(
        heads.narrow(-1, 2 * half, heads.size(-1) - 2 * half).to(parts[0].scalar_type()));
  }
  return torch::cat(parts, -1).to(heads.scalar_type());
}

}  // namespace ssa
