// Sums over the lanes of vectors.

#if defined(SSA_LANE_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_LANE_SUMS_INL_H_
#undef SSA_LANE_SUMS_INL_H_
#else
#define SSA_LANE_SUMS_INL_H_
#endif

#include "kernels/tile-inl.h"

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
/// Four lanes: the sums of lanes 0, 4, 8, … to 3, 7, 11, …
template <class D, class V>
HWY_INLINE auto sum_of_blocks(D d, V x) {
  if constexpr (hn::MaxLanes(d) <= 4) {
    return x;
  } else {
    const hn::Half<D> half;
    return sum_of_blocks(half, hn::Add(hn::LowerHalf(half, x), hn::UpperHalf(half, x)));
  }
}
#endif

/// to[0…3] = the sums of the lanes of x[0…3].
HWY_INLINE void store_sums(const Floats* x, float* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int n = 0; n < 4; ++n) to[n] = hn::GetLane(x[n]);
#else
  const FloatTag d;
  const hn::Repartition<double, FloatTag> pairs;
  const auto add_halves = [&](Floats a, Floats b) {
    return hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  };
  const auto x01 = add_halves(x[0], x[1]), x23 = add_halves(x[2], x[3]);
  const Floats sums = hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, x01, x23)),
                              hn::BitCast(d, hn::InterleaveUpper(pairs, x01, x23)));
  hn::StoreU(sum_of_blocks(d, sums), hn::FixedTag<float, 4>(), to);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
SSA_AFTER_NAMESPACE();

#endif  // SSA_LANE_SUMS_INL_H_
