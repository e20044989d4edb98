// Values of hidden (query, key) pairs. ATen's masked_fill goes element by element and takes up to
// 35 times as long as an addition; operations on bits and sums are done by whole vectors.
#pragma once

#include <torch/types.h>

#include <limits>

namespace ssa {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

/// x (float32 or float64) becomes 0 where hidden, also where it is NaN. `hidden` is bool and
/// broadcasts to x.
inline at::Tensor& zero_hidden_(at::Tensor& x, const at::Tensor& hidden) {
  const at::ScalarType bits = x.scalar_type() == at::kDouble ? at::kLong : at::kInt;
  x.view(bits).bitwise_and_(hidden.to(bits).sub_(1));  // hidden 0, visible all ones
  return x;
}

inline at::Tensor zero_hidden(const at::Tensor& x, const at::Tensor& hidden) {
  const at::ScalarType bits = x.scalar_type() == at::kDouble ? at::kLong : at::kInt;
  return x.view(bits).bitwise_and(hidden.to(bits).sub_(1)).view(x.scalar_type());
}

/// x with −inf where hidden.
inline at::Tensor minus_infinity_where_hidden(const at::Tensor& x, const at::Tensor& hidden) {
  const at::Tensor floor = at::zeros(hidden.sizes(), x.options()).masked_fill_(hidden, -kInf);
  return zero_hidden(x, hidden).add_(floor);
}

}  // namespace ssa
