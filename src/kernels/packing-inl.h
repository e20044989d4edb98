// One head's matrix of the caller's through its strides, and copied or packed as the tiles need it.

#if defined(SSA_PACKING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_PACKING_INL_H_
#undef SSA_PACKING_INL_H_
#else
#define SSA_PACKING_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "kernels/tile-inl.h"
#include "ssa/attention.h"

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

HWY_INLINE Floats load_floats(const float* from) { return hn::LoadU(FloatTag(), from); }
HWY_INLINE Floats load_floats(const BFloat16* from) {
  const UintTag du;
  const hn::Rebind<std::uint16_t, UintTag> half;
  const auto bits = hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
}

/// One head's matrix (rows × columns): element (r, c) at data[r·row_stride + c·stride].
template <class T>
struct Matrix {
  const T* data;
  Index row_stride, stride;

  const T* row(Index r) const { return data + r * row_stride; }
  float at(Index r, Index c) const { return static_cast<float>(row(r)[c * stride]); }
  /// Whether it may stand for its own copy with rows of `width` floats, without padding.
  bool is_packed(Index columns, Index width) const {
    return !kPairs<T> && columns == width && stride == 1 && row_stride == columns;
  }
};

template <class T>
Matrix<std::remove_const_t<T>> matrix_of(const View4<T>& view, Index i0, Index i1) {
  return {view.at(i0, i1, 0), view.stride[2], view.stride[3]};
}

/// The left side of a product: to (rows × width) = factor · from (rows × columns), padded with
/// zeros to `width`, whole vectors.
inline void copy_rows(const Matrix<float>& from, Index rows, Index columns, float factor, float* to,
                      Index width) {
  const FloatTag d;
  for (Index r = 0; r < rows; ++r, to += width) {
    const float* row = from.row(r);
    Index c = 0;
    if (from.stride == 1) {
      for (; c + kLanes <= columns; c += kLanes) {
        hn::StoreU(hn::Mul(set(factor), hn::LoadU(d, row + c)), d, to + c);
      }
    }
    for (; c < columns; ++c) to[c] = factor * row[c * from.stride];
    for (; c < width; ++c) to[c] = 0.0f;
  }
}

/// The right side of a product: depth<T>(rows) rows of `width` lanes.
inline void stack_rows(const Matrix<float>& from, Index rows, Index columns, float* to,
                       Index width) {
  copy_rows(from, rows, columns, 1.0f, to, width);
}

/// Row r of stacked rows becomes zero.
template <class T>
void erase_row(float* stacked, Index r, Index width) {
  float* row = stacked + r / kDepth<T> * width;
  for (Index c = 0; c < width; ++c) {
    std::memset(reinterpret_cast<char*>(row + c) + r % kDepth<T> * sizeof(T), 0, sizeof(T));
  }
}

/// to (columns, strided) = factor · from.
inline void write_row(const float* from, Index columns, float factor, float* to, Index stride) {
  const FloatTag d;
  Index c = 0;
  if (stride == 1) {
    for (; c + kLanes <= columns; c += kLanes) {
      hn::StoreU(hn::Mul(set(factor), hn::LoadU(d, from + c)), d, to + c);
    }
  }
  for (; c < columns; ++c) to[c * stride] = factor * from[c];
}

#if HWY_TARGET != HWY_SCALAR
/// Four floats of each of four rows, transposed into to[c·ld + 0…3].
HWY_INLINE void transpose_4x4(const float* row0, const float* row1, const float* row2,
                              const float* row3, float* to, Index ld) {
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> pairs;
  const auto r0 = hn::LoadU(d, row0), r1 = hn::LoadU(d, row1);
  const auto r2 = hn::LoadU(d, row2), r3 = hn::LoadU(d, row3);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + ld);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * ld);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * ld);
}
#endif

/// Size of the panels of so many keys.
template <class T>
constexpr Index panels_size(Index keys, Index dim) {
  return round_up(keys, kPanel) * depth<T>(dim);
}

/// Panels as in tile-inl.h from keys (keys × dim); zero up to a whole vector of keys.
inline void pack_panels(const Matrix<float>& from, Index keys, Index dim, float* panels) {
  const Index padded = round_up(keys, kLanes);
  Index j = 0;
  const auto place = [&] { return panels + j / kPanel * kPanel * dim + j % kPanel; };
#if HWY_TARGET != HWY_SCALAR
  for (; from.stride == 1 && j + 4 <= keys; j += 4) {
    const float *row0 = from.row(j), *row1 = from.row(j + 1);
    const float *row2 = from.row(j + 2), *row3 = from.row(j + 3);
    float* to = place();
    Index c = 0;
    // Four rows at a time look to the hardware like no stream; asking ahead is worth 2 % at
    // length 82.
    for (Index r = j + 16; r < std::min(j + 20, keys); ++r) {
      for (Index line = 0; line < dim; line += 16) __builtin_prefetch(from.row(r) + line);
    }
    for (; c + 4 <= dim; c += 4) {
      transpose_4x4(row0 + c, row1 + c, row2 + c, row3 + c, to + c * kPanel, kPanel);
    }
    for (; c < dim; ++c) {
      to[c * kPanel] = row0[c];
      to[c * kPanel + 1] = row1[c];
      to[c * kPanel + 2] = row2[c];
      to[c * kPanel + 3] = row3[c];
    }
  }
#endif
  for (; j < padded; ++j) {
    float* to = place();
    for (Index c = 0; c < dim; ++c) {
      to[c * kPanel] = j < keys ? from.row(j)[c * from.stride] : 0.0f;
    }
  }
}

/// Key j of panels of n lanes a key becomes zero.
inline void erase_key(float* panels, Index j, Index n) {
  float* column = panels + j / kPanel * kPanel * n + j % kPanel;
  for (Index c = 0; c < n; ++c) column[c * kPanel] = 0.0f;
}

/// The largest squared norm of keys in panels of n lanes; NaN or inf when one of them is not
/// finite.
template <class T>
float largest_square(const float* panels, Index keys, Index n) {
  const FloatTag d;
  Floats largest = hn::Zero(d), finite = hn::Zero(d);
  for (Index j = 0; j < keys; j += kLanes) {
    const float* panel = panels + j / kPanel * kPanel * n + j % kPanel;
    Floats even = hn::Zero(d), odd = hn::Zero(d);
    Index c = 0;
    for (; c + 2 <= n; c += 2) {
      const Floats x = hn::LoadU(d, panel + c * kPanel), y = hn::LoadU(d, panel + (c + 1) * kPanel);
      even = multiply_add<T>(x, x, even);
      odd = multiply_add<T>(y, y, odd);
    }
    if (c < n) {
      const Floats x = hn::LoadU(d, panel + c * kPanel);
      even = multiply_add<T>(x, x, even);
    }
    const Floats square = hn::Add(even, odd);
    largest = hn::Max(largest, square);
    finite = hn::MulAdd(square, hn::Zero(d), finite);  // NaN once a square is not finite
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest)) + hn::GetLane(hn::SumOfLanes(d, finite));
}

/// The same for rows of `width` lanes.
template <class T>
float largest_square_of_rows(const float* rows, Index count, Index width) {
  const FloatTag d;
  float largest = 0.0f, finite = 0.0f;
  for (Index r = 0; r < count; ++r, rows += width) {
    Floats sum = hn::Zero(d);
    for (Index c = 0; c < width; c += kLanes) {
      const Floats x = hn::LoadU(d, rows + c);
      sum = multiply_add<T>(x, x, sum);
    }
    const float square = hn::GetLane(hn::SumOfLanes(d, sum));
    largest = std::max(largest, square);
    finite += 0.0f * square;
  }
  return largest + finite;
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
SSA_AFTER_NAMESPACE();

#endif  // per-target include guard
