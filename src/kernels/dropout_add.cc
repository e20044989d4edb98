// Dropout with a residual: see ssa/dropout_add.h.
#include "ssa/dropout_add.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dropout_add.cc"
// clang-format off: foreach_target.h comes first
#include <hwy/foreach_target.h>
// clang-format on
#include <algorithm>

#include "kernels/dropout-inl.h"

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

/// Rows first … first + rows − 1 of `from` times their factors, each vector handed to
/// store(vector or its part in a buffer, place, count).
template <class T, class Store>
HWY_INLINE void scaled_rows(const T* from, std::int64_t first, std::int64_t rows,
                            std::int64_t columns, double p, std::uint64_t seed, Store&& store) {
  const Dropout dropout(seed, p, 0, 0);
  const Floats scale = set(dropout.scale());
  for (std::int64_t i = first; i < first + rows; ++i) {
    dropout.for_each_vector(i, 0, columns, [&](Index j, FloatMask falls) {
      const std::int64_t at = i * columns + j;
      const Floats factor = hn::IfThenZeroElse(falls, scale);
      if (j + kLanes <= columns) {
        store(hn::Mul(factor, load_floats(from + at)), at, kLanes);
        return;
      }
      T rest[kLanes] = {};
      std::copy(from + at, from + (i + 1) * columns, rest);
      store(hn::Mul(factor, load_floats(rest)), at, columns - j);
    });
  }
}

template <class T>
HWY_INLINE void add_rows(const T* x, const float* residual, float* out, std::int64_t first,
                         std::int64_t rows, std::int64_t columns, double p, std::uint64_t seed) {
  const FloatTag d;
  scaled_rows(x, first, rows, columns, p, seed, [&](Floats kept, std::int64_t at, Index count) {
    if (count == kLanes) {
      hn::StoreU(hn::Add(kept, hn::LoadU(d, residual + at)), d, out + at);
      return;
    }
    float values[kLanes];
    hn::StoreU(kept, d, values);
    for (Index k = 0; k < count; ++k) out[at + k] = residual[at + k] + values[k];
  });
}

template <class T>
HWY_INLINE void slope_rows(const float* d_out, T* d_x, std::int64_t first, std::int64_t rows,
                           std::int64_t columns, double p, std::uint64_t seed) {
  scaled_rows(d_out, first, rows, columns, p, seed, [&](Floats kept, std::int64_t at, Index count) {
    float values[kLanes];
    hn::StoreU(kept, FloatTag(), values);
    for (Index k = 0; k < count; ++k) d_x[at + k] = T(values[k]);
  });
}

void add_float(const float* x, const float* residual, float* out, std::int64_t first,
               std::int64_t rows, std::int64_t columns, double p, std::uint64_t seed) {
  add_rows(x, residual, out, first, rows, columns, p, seed);
}
void add_bfloat16(const BFloat16* x, const float* residual, float* out, std::int64_t first,
                  std::int64_t rows, std::int64_t columns, double p, std::uint64_t seed) {
  add_rows(x, residual, out, first, rows, columns, p, seed);
}
void slope_float(const float* d_out, float* d_x, std::int64_t first, std::int64_t rows,
                 std::int64_t columns, double p, std::uint64_t seed) {
  slope_rows(d_out, d_x, first, rows, columns, p, seed);
}
void slope_bfloat16(const float* d_out, BFloat16* d_x, std::int64_t first, std::int64_t rows,
                    std::int64_t columns, double p, std::uint64_t seed) {
  slope_rows(d_out, d_x, first, rows, columns, p, seed);
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
SSA_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/check_args.h"
#include "kernels/row_parts.h"

namespace ssa {

HWY_EXPORT(add_float);
HWY_EXPORT(add_bfloat16);
HWY_EXPORT(slope_float);
HWY_EXPORT(slope_bfloat16);

void dropout_add_forward(const float* x, const float* residual, float* out, std::int64_t rows,
                         std::int64_t columns, double p, std::uint64_t seed,
                         const Parallel& parallel) {
  check_given("dropout_add_forward: out", out, rows * columns);
  in_row_parts(rows, parallel, [&](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(add_float)(x, residual, out, first, count, columns, p, seed);
  });
}

void dropout_add_forward(const BFloat16* x, const float* residual, float* out, std::int64_t rows,
                         std::int64_t columns, double p, std::uint64_t seed,
                         const Parallel& parallel) {
  check_given("dropout_add_forward: out", out, rows * columns);
  in_row_parts(rows, parallel, [&](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(add_bfloat16)(x, residual, out, first, count, columns, p, seed);
  });
}

void dropout_add_backward(const float* d_out, float* d_x, std::int64_t rows, std::int64_t columns,
                          double p, std::uint64_t seed, const Parallel& parallel) {
  check_given("dropout_add_backward: d_x", d_x, rows * columns);
  in_row_parts(rows, parallel, [&](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(slope_float)(d_out, d_x, first, count, columns, p, seed);
  });
}

void dropout_add_backward(const float* d_out, BFloat16* d_x, std::int64_t rows,
                          std::int64_t columns, double p, std::uint64_t seed,
                          const Parallel& parallel) {
  check_given("dropout_add_backward: d_x", d_x, rows * columns);
  in_row_parts(rows, parallel, [&](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(slope_bfloat16)(d_out, d_x, first, count, columns, p, seed);
  });
}

}  // namespace ssa
#endif  // HWY_ONCE
