#include "model/rotary.h"

#include <torch/torch.h>

#include <cmath>

namespace ssa {

RotaryTable::RotaryTable(std::int64_t positions, std::int64_t head_dim) {
  const auto number = torch::TensorOptions(torch::kFloat64);
  const torch::Tensor frequency =
      torch::exp(torch::arange(0, head_dim, 2, number) * (-std::log(10000.0) / head_dim));
  const torch::Tensor angle =
      torch::outer(torch::arange(positions, number), frequency).unsqueeze(1);
  cosine = angle.cos();
  sine = angle.sin();
}

torch::Tensor rotate(const torch::Tensor& heads, const RotaryTable& table) {
  const std::int64_t length = heads.size(1);
  const torch::Tensor cosine = table.cosine.narrow(0, 0, length).to(heads.scalar_type());
  const torch::Tensor sine = table.sine.narrow(0, 0, length).to(heads.scalar_type());
  const std::vector<torch::Tensor> halves = heads.chunk(2, -1);
  return torch::cat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine},
                    -1);
}

}  // namespace ssa
