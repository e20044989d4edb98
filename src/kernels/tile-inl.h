// Register tiles: the products of small row-major matrices that all of attention is made of.
//
// Operands of float have an element in a 32-bit lane. Those of BFloat16 have two: the elements of
// two consecutive steps of the contraction, the first in the lower half; a lane of one operand
// times a lane of the other is a dot product of two. Sums are float always.

#if defined(SSA_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_TILE_INL_H_
#undef SSA_TILE_INL_H_
#else
#define SSA_TILE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/math-inl.h"
#include "ssa/bfloat16.h"

// Highway 1.0.3 does not know the dot product of bfloat16 pairs; the kernels add it to the target.
// They run it only where target.h says that the processor has it.
#undef SSA_BEFORE_NAMESPACE
#undef SSA_AFTER_NAMESPACE
#if HWY_TARGET <= HWY_AVX3
#define SSA_BEFORE_NAMESPACE() \
  HWY_BEFORE_NAMESPACE();      \
  HWY_PUSH_ATTRIBUTES("avx512bf16")
#define SSA_AFTER_NAMESPACE() \
  HWY_POP_ATTRIBUTES          \
  HWY_AFTER_NAMESPACE()
#else
#define SSA_BEFORE_NAMESPACE() HWY_BEFORE_NAMESPACE()
#define SSA_AFTER_NAMESPACE() HWY_AFTER_NAMESPACE()
#endif

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

using Index = std::int64_t;

// A tile of kTileRows × kTileVecs accumulators fills the registers but for one row of B and one of
// A.
#if HWY_TARGET <= HWY_AVX3
inline constexpr int kTileRows = 6, kTileVecs = 4;  // 32 registers of 16 lanes
#elif HWY_TARGET == HWY_NEON
inline constexpr int kTileRows = 6, kTileVecs = 4;  // 32 registers of 4 lanes
#elif HWY_TARGET == HWY_AVX2
inline constexpr int kTileRows = 4, kTileVecs = 3;  // 16 registers of 8 lanes
#else
inline constexpr int kTileRows = 4, kTileVecs = 2;  // 16 registers, product and sum apart
#endif

/// Keys of one packed panel: panel p holds keys [p·kPanel, (p+1)·kPanel) as (dim, kPanel),
/// transposed.
inline constexpr Index kPanel = kTileVecs * kLanes;

constexpr Index round_up(Index n, Index multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// Whether lanes hold two elements of type T.
template <class T>
inline constexpr bool kPairs = std::is_same_v<T, BFloat16>;

/// Elements of type T in a lane.
template <class T>
inline constexpr Index kDepth = kPairs<T> ? 2 : 1;

/// Lanes of a contraction over so many elements.
template <class T>
constexpr Index depth(Index elements) {
  return (elements + kDepth<T> - 1) / kDepth<T>;
}

/// sum + a·b, lanes of elements of type T.
template <class T>
HWY_INLINE Floats multiply_add(Floats a, Floats b, Floats sum) {
  if constexpr (!kPairs<T>) {
    return hn::MulAdd(a, b, sum);
  } else {
#if HWY_TARGET <= HWY_AVX3
    return Floats{_mm512_dpbf16_ps(sum.raw, (__m512bh)a.raw, (__m512bh)b.raw)};
#endif
  }
}

/// How A (rows × n) is stored: row r at a + r·lda, or transposed: element (r, k) at a[k·lda + r].
enum class Storage { kRows, kTransposed };

/// C = factor·A·B or C += A·B with C of kR rows × kV vectors; B's row k starts at b + k·ldb, and n
/// counts lanes. Of float operands, which may hold a factor themselves, `factor` is 1.
template <class T, int kR, int kV, Storage kA, bool kAdd>
HWY_NOINLINE void tile(const float* HWY_RESTRICT a, Index lda, Index n, const float* HWY_RESTRICT b,
                       Index ldb, float* HWY_RESTRICT c, Index ldc, [[maybe_unused]] float factor) {
  const FloatTag d;
  Floats sum[kR][kV];
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kV; ++v) {
      sum[r][v] = kAdd ? hn::LoadU(d, c + r * ldc + v * kLanes) : hn::Zero(d);
    }
  }
#pragma GCC unroll 2
  for (Index k = 0; k < n; ++k) {
    Floats row[kV];
#pragma GCC unroll 8
    for (int v = 0; v < kV; ++v) row[v] = hn::LoadU(d, b + k * ldb + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) {
      const Floats x = set(kA == Storage::kRows ? a[r * lda + k] : a[k * lda + r]);
#pragma GCC unroll 8
      for (int v = 0; v < kV; ++v) sum[r][v] = multiply_add<T>(x, row[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kV; ++v) {
      if constexpr (kPairs<T> && !kAdd) sum[r][v] = hn::Mul(set(factor), sum[r][v]);
      hn::StoreU(sum[r][v], d, c + r * ldc + v * kLanes);
    }
  }
}

using TileFunction = void (*)(const float*, Index, Index, const float*, Index, float*, Index,
                              float);

/// tiles[rows − 1][vectors − 1]
template <class T, Storage kA, bool kAdd, int... kR>
constexpr auto make_tiles(std::integer_sequence<int, kR...>) {
  const auto one_height = []<int kRows, int... kV>(std::integer_sequence<int, kV...>) {
    return std::array<TileFunction, kTileVecs>{tile<T, kRows, kV + 1, kA, kAdd>...};
  };
  return std::array<std::array<TileFunction, kTileVecs>, kTileRows>{
      one_height.template operator()<kR + 1>(std::make_integer_sequence<int, kTileVecs>())...};
}

template <class T, Storage kA, bool kAdd>
inline constexpr auto kTiles =
    make_tiles<T, kA, kAdd>(std::make_integer_sequence<int, kTileRows>());

/// C += A·B for any number of rows; C and B are `width` lanes wide, padded to whole vectors.
template <class T, Storage kA>
void multiply(Index rows, Index width, const float* a, Index lda, Index n, const float* b,
              Index ldb, float* c, Index ldc) {
  for (Index r = 0; r < rows; r += kTileRows) {
    const auto& tiles = kTiles<T, kA, true>[std::min<Index>(rows - r, kTileRows) - 1];
    for (Index j = 0; j < width; j += kPanel) {
      const Index vectors = (std::min(width - j, kPanel) + kLanes - 1) / kLanes;
      tiles[vectors - 1](kA == Storage::kRows ? a + r * lda : a + r, lda, n, b + j, ldb,
                         c + r * ldc + j, ldc, 1.0f);
    }
  }
}

/// scores (rows × keys, at most kTileRows rows) = factor·A·Kᵀ with K as panels of n lanes a key,
/// the first key at a panel's start.
template <class T>
void multiply_panels(Index rows, Index keys, const float* a, Index lda, Index n,
                     const float* panels, float* scores, Index ld, float factor) {
  const auto& tiles = kTiles<T, Storage::kRows, false>[rows - 1];
  for (Index j = 0; j < keys; j += kPanel) {
    const Index vectors = (std::min(keys - j, kPanel) + kLanes - 1) / kLanes;
    tiles[vectors - 1](a, lda, n, panels + j * n, kPanel, scores + j, ld, factor);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
SSA_AFTER_NAMESPACE();

#endif  // per-target include guard
