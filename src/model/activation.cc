#include "model/activation.h"

#include <torch/types.h>

#include "ssa/check.h"

namespace ssa {

torch::Tensor activated(const torch::Tensor& values, Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return torch::gelu(values);
    case Activation::gelu_tanh:
      return torch::gelu(values, "tanh");
    case Activation::relu:
      return torch::relu(values);
    case Activation::relu_squared:
      return torch::relu(values).square();
    case Activation::silu:
      return torch::silu(values);
  }
  SSA_CHECK(false, "model: an activation without a formula");
  return {};
}

}  // namespace ssa
