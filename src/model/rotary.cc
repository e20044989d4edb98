#include "model/rotary.h"

#include <torch/torch.h>

#include <cmath>

namespace ssa {
namespace {

Rotation to_type(const Rotation& rotation, torch::ScalarType model_type) {
  const auto type = model_type == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  return {rotation.cosine.to(type), rotation.sine.to(type)};
}

}  // namespace

RotaryTable::RotaryTable(std::int64_t positions, std::int64_t rotated_dims) {
  const auto number = torch::TensorOptions(torch::kFloat64);
  const torch::Tensor frequency = torch::exp(torch::arange(0, rotated_dims, 2, number) *
                                             (-std::log(kRotaryBase) / rotated_dims));
  const torch::Tensor angle =
      torch::outer(torch::arange(positions, number), frequency).unsqueeze(1);
  table_ = {angle.cos(), angle.sin()};
}

Rotation RotaryTable::at(const torch::Tensor& positions, torch::ScalarType model_type) const {
  return to_type({table_.cosine.index_select(0, positions), table_.sine.index_select(0, positions)},
                 model_type);
}

Rotation RotaryTable::at(std::int64_t first, std::int64_t count,
                         torch::ScalarType model_type) const {
  return to_type({table_.cosine.narrow(0, first, count), table_.sine.narrow(0, first, count)},
                 model_type);
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
