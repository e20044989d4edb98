// GELU with bias: see ssa/gelu.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gelu.cc"
// clang-format off: foreach_target.h comes first
#include <hwy/foreach_target.h>
// clang-format on
#include <algorithm>
#include <array>

#include "kernels/math-inl.h"
#include "ssa/gelu.h"

HWY_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

/// With u(z) = √(2/π)·(z + 0.044715·z³): (1 + tanh u)/2 = 1/(1 + e^−2u), so g(z) = z·sigmoid(2u).
struct Gelu {
  VectorMath m;

  /// z where e^−2u has its range, [2^-123, 2^123]. Beyond, the sigmoid is 1 in float, or so small
  /// (2^-123) that neither g nor g' has a digit left of it.
  static HWY_INLINE Floats bounded(Floats z) { return at_most(set(9.9f), at_least(set(-9.9f), z)); }

  /// e^−2u for a bounded z.
  HWY_INLINE Floats power(Floats z) const {
    constexpr float kLinear = -2.3022081985f;  // −2·√(2/π)·log2 e
    const Floats cubic = hn::MulAdd(hn::Mul(z, z), set(0.044715f * kLinear), set(kLinear));
    return m.exp2_in_range(hn::Mul(z, cubic));
  }

  HWY_INLINE Floats value(Floats z) const {
    return hn::Mul(z, m.recip(hn::Add(set(1.0f), power(bounded(z)))));
  }

  /// g' = σ + z·σ·(1 − σ)·2u' with 2u' = 2·√(2/π)·(1 + 3·0.044715·z²)
  HWY_INLINE Floats slope(Floats z) const {
    constexpr float kLinear = 1.5957691216f;  // 2·√(2/π)
    const Floats b = bounded(z);
    const Floats e = power(b);
    const Floats sigmoid = m.recip(hn::Add(set(1.0f), e));
    const Floats inner = hn::MulAdd(hn::Mul(b, b), set(3 * 0.044715f * kLinear), set(kLinear));
    const Floats bend = hn::Mul(hn::Mul(b, inner), hn::Mul(e, sigmoid));  // z·2u'·(1 − σ)
    return hn::MulAdd(sigmoid, bend, sigmoid);
  }
};

/// out_ij = f(load), load(k) being the vector of input k at (i, j): whole vectors, then the rest of
/// the row through a buffer. Input 1, the bias, is the same in every row.
template <std::size_t kInputs, class F>
HWY_INLINE void each_vector(std::array<const float*, kInputs> in, float* out, std::int64_t rows,
                            std::int64_t columns, F&& f) {
  const FloatTag d;
  for (std::int64_t i = 0; i < rows; ++i) {
    std::int64_t j = 0;
    for (; j + kLanes <= columns; j += kLanes) {
      hn::StoreU(f([&](std::size_t k) { return hn::LoadU(d, in[k] + j); }), d, out + j);
    }
    if (j < columns) {
      float rest[kInputs][kLanes] = {}, result[kLanes];
      for (std::size_t k = 0; k < kInputs; ++k) std::copy(in[k] + j, in[k] + columns, rest[k]);
      hn::StoreU(f([&](std::size_t k) { return hn::LoadU(d, rest[k]); }), d, result);
      std::copy(result, result + (columns - j), out + j);
    }
    for (std::size_t k = 0; k < kInputs; ++k) in[k] += k == 1 ? 0 : columns;
    out += columns;
  }
}

void gelu_rows(const float* x, const float* bias, float* out, std::int64_t rows,
               std::int64_t columns) {
  const Gelu gelu;
  each_vector<2>({x, bias}, out, rows, columns,
                 [&](auto&& load) { return gelu.value(hn::Add(load(0), load(1))); });
}

void gelu_slope_rows(const float* x, const float* bias, const float* d_out, float* d_x,
                     std::int64_t rows, std::int64_t columns) {
  const Gelu gelu;
  each_vector<3>({x, bias, d_out}, d_x, rows, columns, [&](auto&& load) {
    return hn::Mul(load(2), gelu.slope(hn::Add(load(0), load(1))));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/check_args.h"
#include "kernels/row_parts.h"

namespace ssa {

HWY_EXPORT(gelu_rows);
HWY_EXPORT(gelu_slope_rows);

void bias_gelu_forward(const float* x, const float* bias, float* out, std::int64_t rows,
                       std::int64_t columns, const Parallel& parallel) {
  check_given("bias_gelu_forward: out", out, rows * columns);
  in_row_parts(rows, parallel, [&](std::int64_t first, std::int64_t count) {
    const std::int64_t at = first * columns;
    HWY_DYNAMIC_DISPATCH(gelu_rows)(x + at, bias, out + at, count, columns);
  });
}

void bias_gelu_backward(const float* x, const float* bias, const float* d_out, float* d_x,
                        std::int64_t rows, std::int64_t columns, const Parallel& parallel) {
  check_given("bias_gelu_backward: d_x", d_x, rows * columns);
  in_row_parts(rows, parallel, [&](std::int64_t first, std::int64_t count) {
    const std::int64_t at = first * columns;
    HWY_DYNAMIC_DISPATCH(gelu_slope_rows)(x + at, bias, d_out + at, d_x + at, count, columns);
  });
}

}  // namespace ssa
#endif  // HWY_ONCE
