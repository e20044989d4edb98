// The primitives of scores-inl.h for tensors.
#pragma once

#include <torch/types.h>

namespace ssa {

struct TensorMath {
  using V = at::Tensor;
  at::TensorOptions options;

  V constant(double value) const { return at::scalar_tensor(value, options); }
  V add(const V& a, const V& b) const { return a + b; }
  V sub(const V& a, const V& b) const { return a - b; }
  V mul(const V& a, const V& b) const { return a * b; }
  V abs(const V& a) const { return a.abs(); }
  V copy_sign(const V& magnitude, const V& sign) const { return at::copysign(magnitude, sign); }
  V recip(const V& a) const { return a.reciprocal(); }
  V tanh(const V& a) const { return a.tanh(); }
  /// ATen has no log2 of 1 + x; log1p keeps the digits of a small x.
  V log2_1p(const V& x) const { return at::log1p(x).mul_(1.4426950408889634074); }
};

}  // namespace ssa
