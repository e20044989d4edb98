#include "eval/model_json.h"

#include <torch/types.h>

#include <array>
#include <charconv>
#include <cmath>

namespace ssa {
namespace {

/// The double that prints as the float does.
Json shortest(float value) {
  if (!std::isfinite(value)) return nullptr;
  std::array<char, 32> text{};
  const char* end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double printed = 0;
  std::from_chars(text.data(), end, printed);
  return printed;
}

Json nested(const torch::Tensor& values) {
  Json out = Json::array();
  if (values.dim() == 1) {
    const auto elements = values.accessor<float, 1>();
    for (std::int64_t i = 0; i < values.size(0); ++i) out.push_back(shortest(elements[i]));
    return out;
  }
  for (std::int64_t i = 0; i < values.size(0); ++i) out.push_back(nested(values[i]));
  return out;
}

}  // namespace

Json to_json(const torch::Tensor& values) {
  const torch::Tensor plain = values.detach().to(torch::kCPU, torch::kFloat32);
  return plain.dim() == 0 ? shortest(plain.item<float>()) : nested(plain);
}

Json score_parameters_json(const Model& model) {
  Json layers = Json::array();
  for (const auto& layer : model.score_parameters()) {
    Json values = Json::object();
    for (const ScoreParameterValues& parameter : layer) {
      values[parameter.name] = to_json(parameter.values);
    }
    layers.push_back(values);
  }
  return layers;
}

}  // namespace ssa
