// BFloat16 operands of the register tiles: two elements in a 32-bit lane (tile-inl.h). Everything
// that packing-inl.h does for float, and the way back from float scores to operands.

#if defined(SSA_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_PAIRS_INL_H_
#undef SSA_PAIRS_INL_H_
#else
#define SSA_PAIRS_INL_H_
#endif

#include "kernels/packing-inl.h"

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

/// A vector rounded to T.
template <class T>
void store_narrow(Floats x, void* to);

/// The row's first n floats become its first n / 2 lanes; n in whole vectors.
template <class T>
void narrow_row(float* row, Index n);

/// Lane j of `to` has elements j of both rows; n in whole vectors.
template <class T>
void stack_floats(const float* first, const float* second, Index n, float* to);

#if HWY_TARGET <= HWY_AVX3

template <class T>
HWY_INLINE void store_narrow(Floats x, void* to) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(x.raw));
}

/// A lane of two elements; the second may be missing.
inline float pair_of(BFloat16 first, BFloat16 second) {
  const std::uint32_t bits = first.bits | static_cast<std::uint32_t>(second.bits) << 16;
  float lane;
  std::memcpy(&lane, &bits, sizeof(lane));
  return lane;
}

/// The matrix with its pairs as floats, where they lie in memory as lanes; null data where not.
inline Matrix<float> lanes_of(const Matrix<BFloat16>& m, Index columns) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(m.data) % sizeof(float) == 0;
  if (!aligned || m.stride != 1 || m.row_stride % 2 != 0 || columns % 2 != 0)
    return {nullptr, 0, 0};
  return {reinterpret_cast<const float*>(m.data), m.row_stride / 2, 1};
}

/// The left side of a product. There is no factor: it would be rounded.
inline void copy_rows(const Matrix<BFloat16>& from, Index rows, Index columns, float /*factor*/,
                      float* to, Index width) {
  for (Index r = 0; r < rows; ++r, to += width) {
    const BFloat16* row = from.row(r);
    if (from.stride == 1) {
      std::memcpy(to, row, columns * sizeof(BFloat16));
    } else {
      for (Index c = 0; c < columns; ++c) {
        std::memcpy(reinterpret_cast<char*>(to) + c * sizeof(BFloat16), row + c * from.stride,
                    sizeof(BFloat16));
      }
    }
    std::memset(reinterpret_cast<char*>(to) + columns * sizeof(BFloat16), 0,
                width * sizeof(float) - columns * sizeof(BFloat16));
  }
}

/// The right side of a product: lane c of row r has elements c of rows 2r and 2r + 1.
inline void stack_rows(const Matrix<BFloat16>& from, Index rows, Index columns, float* to,
                       Index width) {
  const UintTag du;
  const hn::Rebind<std::uint16_t, UintTag> half;
  for (Index r = 0; r < rows; r += 2, to += width) {
    const BFloat16* first = from.row(r);
    const BFloat16* second = r + 1 < rows ? from.row(r + 1) : nullptr;
    Index c = 0;
    if (from.stride == 1) {
      for (; c + kLanes <= columns; c += kLanes) {
        const auto load = [&](const BFloat16* row) {
          return hn::PromoteTo(du,
                               hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(row + c)));
        };
        auto lanes = load(first);
        if (second != nullptr) lanes = hn::Or(lanes, hn::ShiftLeft<16>(load(second)));
        hn::StoreU(hn::BitCast(FloatTag(), lanes), FloatTag(), to + c);
      }
    }
    for (; c < columns; ++c) {
      to[c] =
          pair_of(first[c * from.stride], second == nullptr ? BFloat16() : second[c * from.stride]);
    }
    for (; c < width; ++c) to[c] = 0.0f;
  }
}

inline void write_row(const float* from, Index columns, float factor, BFloat16* to, Index stride) {
  const FloatTag d;
  Index c = 0;
  if (stride == 1) {
    for (; c + kLanes <= columns; c += kLanes) {
      store_narrow<BFloat16>(hn::Mul(set(factor), hn::LoadU(d, from + c)), to + c);
    }
  }
  for (; c < columns; ++c) to[c * stride] = BFloat16(factor * from[c]);
}

inline void pack_panels(const Matrix<BFloat16>& from, Index keys, Index dim, float* panels) {
  if (const Matrix<float> lanes = lanes_of(from, dim); lanes.data != nullptr) {
    return pack_panels(lanes, keys, dim / 2, panels);
  }
  const Index n = depth<BFloat16>(dim);
  for (Index j = 0; j < round_up(keys, kLanes); ++j) {
    float* to = panels + j / kPanel * kPanel * n + j % kPanel;
    for (Index c = 0; c < dim; c += 2) {
      const auto element = [&](Index at) {
        return j < keys && at < dim ? from.row(j)[at * from.stride] : BFloat16();
      };
      to[c / 2 * kPanel] = pair_of(element(c), element(c + 1));
    }
  }
}

template <class T>
void narrow_row(float* row, Index n) {
  for (Index j = 0; j < n; j += kLanes)
    store_narrow<T>(hn::LoadU(FloatTag(), row + j), row + j / 2);
}

template <class T>
void stack_floats(const float* first, const float* second, Index n, float* to) {
  const FloatTag d;
  alignas(64) static constexpr std::uint16_t kOrder[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i order = _mm512_load_si512(kOrder);
  for (Index j = 0; j < n; j += kLanes) {
    const auto both =
        (__m512i)_mm512_cvtne2ps_pbh(hn::LoadU(d, second + j).raw, hn::LoadU(d, first + j).raw);
    _mm512_storeu_si512(to + j, _mm512_permutexvar_epi16(order, both));
  }
}

#endif  // AVX-512

}  // namespace HWY_NAMESPACE
}  // namespace ssa
SSA_AFTER_NAMESPACE();

#endif  // per-target include guard
