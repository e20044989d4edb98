#include "model/linear.h"

#include <torch/types.h>

#include "model/product.h"

namespace ssa {

Linear::Linear(std::int64_t inputs, std::int64_t outputs, bool bias)
    : weight_(register_parameter("weight", torch::zeros({inputs, outputs}))) {
  if (bias) bias_ = register_parameter("bias", torch::zeros({outputs}));
}

torch::Tensor Linear::forward(const torch::Tensor& rows) const {
  return ssa::product(rows, weight_, bias_);
}

torch::Tensor Linear::product(const torch::Tensor& rows) const {
  return ssa::product(rows, weight_);
}

}  // namespace ssa
