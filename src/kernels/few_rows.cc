// Products of a few rows with a matrix of weights: see ssa/few_rows.h.
//
// The weights are read once, in the order in which they lie. A weight of (inputs, outputs) is taken
// a few inputs at a time, along all outputs of a strip, into sums that stay in the first cache.
#include "ssa/few_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/few_rows.cc"
// clang-format off: foreach_target.h comes first
#include <hwy/foreach_target.h>
// clang-format on
#include <algorithm>

#include "kernels/lane_sums-inl.h"
#include "kernels/packing-inl.h"
#include "kernels/scratch.h"

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

/// Sums of all rows of a strip of outputs: half of the first cache.
inline constexpr Index kSums = 4096;
/// Inputs whose products are summed before they are added to the result, as products of matrices do
/// for the sake of rounding.
inline constexpr Index kPanelInputs = 256;
/// Inputs that are taken at a time.
inline constexpr int kTogether = 4;

/// The first `count` of a vector's lanes, zero beyond.
template <class T>
HWY_INLINE Floats load_first(const T* from, Index count) {
  if (count >= kLanes) return load_floats(from);
  T part[kLanes] = {};
  std::copy(from, from + count, part);
  return load_floats(part);
}

/// sums += kK columns of the rows · kK rows of `width` weights. `columns` is (inputs, count),
/// `sums` (vectors, count, lanes): what is read and written together lies together.
template <int kK, class T>
void add_inputs(const float* columns, Index count, const T* weight, Index outputs, Index width,
                float* sums) {
  const FloatTag d;
  const auto add = [&]<int kV>(Index j, auto&& load) HWY_ATTR {
    Floats w[kK][kV];
#pragma GCC unroll 8
    for (int k = 0; k < kK; ++k) {
#pragma GCC unroll 2
      for (int v = 0; v < kV; ++v) w[k][v] = load(weight + k * outputs + j + v * kLanes);
      // The strips of the next inputs: hardware fetches ahead along a row only.
      for (Index line = 0; line < kV * kLanes; line += 64 / sizeof(T)) {
        __builtin_prefetch(weight + (kTogether + k) * outputs + j + line);
      }
    }
    float* to = sums + j * count;
    for (Index i = 0; i < count; ++i) {
      Floats sum[kV];
#pragma GCC unroll 2
      for (int v = 0; v < kV; ++v) sum[v] = hn::LoadU(d, to + (v * count + i) * kLanes);
#pragma GCC unroll 8
      for (int k = 0; k < kK; ++k) {
#pragma GCC unroll 2
        for (int v = 0; v < kV; ++v)
          sum[v] = hn::MulAdd(set(columns[k * count + i]), w[k][v], sum[v]);
      }
#pragma GCC unroll 2
      for (int v = 0; v < kV; ++v) hn::StoreU(sum[v], d, to + (v * count + i) * kLanes);
    }
  };
  const auto whole = [](const T* from) HWY_ATTR { return load_floats(from); };
  Index j = 0;
  for (; j + 2 * kLanes <= width; j += 2 * kLanes) add.template operator()<2>(j, whole);
  for (; j < width; j += kLanes) {
    add.template operator()<1>(j,
                               [&](const T* from) HWY_ATTR { return load_first(from, width - j); });
  }
}

/// Outputs first … last − 1.
template <class T>
void product_columns(const float* rows, Index count, const T* weight, Index inputs, Index outputs,
                     const float* bias, float* out, Index first, Index last) {
  const Index strip = kSums / count / kLanes * kLanes;
  Scratch scratch(kSums + Scratch::size_of(count * inputs));
  float* sums = scratch.take(kSums);
  float* columns = scratch.take(count * inputs);
  for (Index i = 0; i < count; ++i) {
    for (Index k = 0; k < inputs; ++k) columns[k * count + i] = rows[i * inputs + k];
  }
  for (Index begin = first; begin < last; begin += strip) {
    const Index width = std::min(strip, last - begin);
    for (Index i = 0; i < count; ++i) {
      float* to = out + i * outputs + begin;
      if (bias == nullptr) {
        std::fill_n(to, width, 0.0f);
      } else {
        std::copy_n(bias + begin, width, to);
      }
    }
    for (Index panel = 0; panel < inputs; panel += kPanelInputs) {
      std::fill_n(sums, round_up(width, kLanes) * count, 0.0f);
      const Index end = std::min(panel + kPanelInputs, inputs);
      Index k = panel;
      const auto add = [&]<int kK>() {
        for (; k + kK <= end; k += kK) {
          add_inputs<kK>(columns + k * count, count, weight + k * outputs + begin, outputs, width,
                         sums);
        }
      };
      add.template operator()<kTogether>();
      add.template operator()<1>();
      for (Index i = 0; i < count; ++i) {
        float* to = out + i * outputs + begin;
        for (Index j = 0; j < width; j += kLanes) {
          const float* from = sums + j * count + i * kLanes;
          for (Index lane = 0; lane < std::min<Index>(kLanes, width - j); ++lane) {
            to[j + lane] += from[lane];
          }
        }
      }
    }
  }
}

/// sums[r][n] = the lane sums of row r times row n of a table's four. `rows` (kR, whole vectors).
template <int kR, class T>
void table_dots(const float* rows, Index padded, const T* const (&table)[4], Index inputs,
                float (&sums)[kR][4]) {
  const FloatTag d;
  constexpr int kN = kR <= 2 ? 4 : kR <= 4 ? 2 : 1;
  Floats sum[kR][4];
#pragma GCC unroll 4
  for (int n0 = 0; n0 < 4; n0 += kN) {
    Floats part[kR][kN];
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < kN; ++n) part[r][n] = hn::Zero(d);
    }
    const auto add = [&](Index k, auto&& load) HWY_ATTR {
#pragma GCC unroll 4
      for (int n = 0; n < kN; ++n) {
        const Floats w = load(table[n0 + n] + k);
        __builtin_prefetch(table[n0 + n] + 4 * inputs + k);
#pragma GCC unroll 8
        for (int r = 0; r < kR; ++r) {
          part[r][n] = hn::MulAdd(hn::LoadU(d, rows + r * padded + k), w, part[r][n]);
        }
      }
    };
    Index k = 0;
    for (; k + kLanes <= inputs; k += kLanes) {
      add(k, [](const T* from) HWY_ATTR { return load_floats(from); });
    }
    if (k < inputs) add(k, [&](const T* from) HWY_ATTR { return load_first(from, inputs - k); });
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < kN; ++n) sum[r][n0 + n] = part[r][n];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) store_sums(sum[r], sums[r]);
}

/// Outputs first … last − 1.
template <class T>
void product_table(const float* rows, Index count, const T* table, Index inputs, Index outputs,
                   const float* bias, float* out, Index first, Index last) {
  const Index padded = round_up(inputs, kLanes);
  Scratch scratch(Scratch::size_of(count * padded));
  float* copy = scratch.take(count * padded);
  copy_rows({rows, inputs, 1}, count, inputs, 1.0f, copy, padded);
  for (Index j = first; j < last; j += 4) {
    const Index width = std::min<Index>(4, last - j);
    const T* four[4];  // past the last the last again
    for (Index n = 0; n < 4; ++n) four[n] = table + (j + std::min(n, width - 1)) * inputs;
    Index i = 0;
    const auto rows_at_a_time = [&]<int kR>() {
      for (; i + kR <= count; i += kR) {
        float sums[kR][4];
        table_dots<kR>(copy + i * padded, padded, four, inputs, sums);
        for (Index r = 0; r < kR; ++r) {
          for (Index n = 0; n < width; ++n) {
            out[(i + r) * outputs + j + n] = sums[r][n] + (bias == nullptr ? 0.0f : bias[j + n]);
          }
        }
      }
    };
    rows_at_a_time.template operator()<8>();
    rows_at_a_time.template operator()<4>();
    rows_at_a_time.template operator()<2>();
    rows_at_a_time.template operator()<1>();
  }
}

void columns_float(const float* rows, Index count, const float* weight, Index inputs, Index outputs,
                   const float* bias, float* out, Index first, Index last) {
  product_columns(rows, count, weight, inputs, outputs, bias, out, first, last);
}
void columns_bfloat16(const float* rows, Index count, const BFloat16* weight, Index inputs,
                      Index outputs, const float* bias, float* out, Index first, Index last) {
  product_columns(rows, count, weight, inputs, outputs, bias, out, first, last);
}
void table_float(const float* rows, Index count, const float* table, Index inputs, Index outputs,
                 const float* bias, float* out, Index first, Index last) {
  product_table(rows, count, table, inputs, outputs, bias, out, first, last);
}
void table_bfloat16(const float* rows, Index count, const BFloat16* table, Index inputs,
                    Index outputs, const float* bias, float* out, Index first, Index last) {
  product_table(rows, count, table, inputs, outputs, bias, out, first, last);
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
SSA_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/check_args.h"
#include "kernels/target.h"
#include "ssa/check.h"

namespace ssa {
namespace {

/// Outputs go to threads in multiples of so many, which keeps every output in the same lane of a
/// whole vector or of the last one.
constexpr std::int64_t kUnit = 64;

/// Calls part(first, last) for each thread's outputs, where there is enough to do for several.
template <class Part>
void in_parts(std::int64_t count, std::int64_t inputs, std::int64_t outputs,
              const Parallel& parallel, const float* out, Part&& part) {
  SSA_CHECK(count >= 0 && count <= kFewRows && inputs >= 0 && outputs >= 0,
            "few_rows_product: " << count << " rows of " << inputs << " inputs, " << outputs
                                 << " outputs; at most " << kFewRows << " rows");
  check_given("few_rows_product: out", out, count * outputs);
  if (count == 0 || outputs == 0) return;
  constexpr std::int64_t kWeights = 32768;  // of a part
  const std::int64_t units = (outputs + kUnit - 1) / kUnit;
  const std::int64_t parts = std::clamp<std::int64_t>(
      inputs * outputs / kWeights, 1, std::min<std::int64_t>(parallel.threads, units));
  choose_target();
  parallel.run(parts, [&](std::int64_t p) {
    part(units * p / parts * kUnit, std::min(units * (p + 1) / parts * kUnit, outputs));
  });
}

}  // namespace

HWY_EXPORT(columns_float);
HWY_EXPORT(columns_bfloat16);
HWY_EXPORT(table_float);
HWY_EXPORT(table_bfloat16);

void few_rows_product(const float* rows, std::int64_t count, const float* weight,
                      std::int64_t inputs, std::int64_t outputs, const float* bias, float* out,
                      const Parallel& parallel) {
  in_parts(count, inputs, outputs, parallel, out, [&](std::int64_t first, std::int64_t last) {
    HWY_DYNAMIC_DISPATCH(columns_float)
    (rows, count, weight, inputs, outputs, bias, out, first, last);
  });
}

void few_rows_product(const float* rows, std::int64_t count, const BFloat16* weight,
                      std::int64_t inputs, std::int64_t outputs, const float* bias, float* out,
                      const Parallel& parallel) {
  in_parts(count, inputs, outputs, parallel, out, [&](std::int64_t first, std::int64_t last) {
    HWY_DYNAMIC_DISPATCH(columns_bfloat16)
    (rows, count, weight, inputs, outputs, bias, out, first, last);
  });
}

void few_rows_product_with_table(const float* rows, std::int64_t count, const float* table,
                                 std::int64_t inputs, std::int64_t outputs, const float* bias,
                                 float* out, const Parallel& parallel) {
  in_parts(count, inputs, outputs, parallel, out, [&](std::int64_t first, std::int64_t last) {
    HWY_DYNAMIC_DISPATCH(table_float)
    (rows, count, table, inputs, outputs, bias, out, first, last);
  });
}

void few_rows_product_with_table(const float* rows, std::int64_t count, const BFloat16* table,
                                 std::int64_t inputs, std::int64_t outputs, const float* bias,
                                 float* out, const Parallel& parallel) {
  in_parts(count, inputs, outputs, parallel, out, [&](std::int64_t first, std::int64_t last) {
    HWY_DYNAMIC_DISPATCH(table_bfloat16)
    (rows, count, table, inputs, outputs, bias, out, first, last);
  });
}

}  // namespace ssa
#endif  // HWY_ONCE
