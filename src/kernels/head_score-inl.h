// A score with one query head's parameters, and the choice of how its values become weights.

#if defined(SSA_HEAD_SCORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_HEAD_SCORE_INL_H_
#undef SSA_HEAD_SCORE_INL_H_
#else
#define SSA_HEAD_SCORE_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "kernels/visibility-inl.h"

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

/// Numbers beside s that the score's functions take, and room for those that it adds up: never
/// none.
template <class Score>
inline constexpr std::size_t kScoreValues = Score::kParams.size() + kCountsKeys<Score>;
template <class Score>
inline constexpr std::size_t kParamSums = std::max<std::size_t>(1, Score::kParams.size());

/// A score with the parameters of one query head. Loops copy it into a local variable first: stores
/// through vector pointers may alias members, which would be loaded anew for every vector of
/// scores.
template <class Score>
struct HeadScore {
  VectorMath math;
  Floats params[std::max<std::size_t>(1, kScoreValues<Score>)];

  HeadScore(const AttentionProblem<float>& args, Index head) {
    for (Floats& value : params) value = hn::Zero(FloatTag());
    for (std::size_t k = 0; k < Score::kParams.size(); ++k) {
      params[k] = set(args.params[k].data[head * args.params[k].stride]);
    }
  }

  /// For scores that count keys: of how many the row sees.
  void see(Index keys) {
    static_assert(kCountsKeys<Score>);
    params[Score::kParams.size()] =
        set(static_cast<float>(std::log(static_cast<double>(std::max<Index>(1, keys)))));
  }

  HWY_INLINE Floats phi2(Floats s) const { return Score::phi2(math, s, params); }
  /// log2 of the sink's term of the normaliser.
  float sink2() const { return hn::GetLane(Score::sink2(math, params)); }
  HWY_INLINE Floats dphi_ds(Floats s) const { return Score::dphi_ds(math, s, params); }
  template <int kParam>
  HWY_INLINE Floats dphi_dparam(Floats s) const {
    return Score::template dphi_dparam<kParam>(math, s, params);
  }
};

/// How the scores of a query block become weights.
enum class Mode {
  kBounded,  ///< |φ2| <= kSafePhi2 proven: no maximum needed; rows see all keys up to their limit
  kBoundedFiltered,  ///< the same, but a mask or window hides keys, or ALiBi changes scores
  kGeneral,          ///< running maximum; anything may be hidden
};

/// 2^±32 leaves room for sums over 2^20 keys times values between 2^-90 and 2^70. With b = 1,
/// dimension 64 and normal inputs, n = 8 just fits.
inline constexpr float kSafePhi2 = 32.0f;
/// Beside such φ2 an lse2 up to this leaves weights above 2^-96; 2^32 keys of such φ2 stay below
/// it.
inline constexpr float kSafeLse2 = 64.0f;

/// The mode of queries with |q|² <= q2 (scale included) and keys with |k|² <= k2: φ does not
/// decrease, so |s| <= |q||k| bounds it; where the score counts keys, |φ| grows with their number,
/// which is the sequence's here. A comparison with NaN is false and takes the safe path.
template <class Score>
Mode choose_mode(const Visibility& visibility, float q2, float k2, HeadScore<Score> score) {
  if constexpr (kCountsKeys<Score>) score.see(visibility.keys);
  if (visibility.args->bias.data != nullptr) return Mode::kGeneral;
  const float bound = std::sqrt(q2) * std::sqrt(k2) * 1.0001f;  // rounding of the sums
  const float penalty = visibility.slope() * static_cast<float>(visibility.farthest());
  const float high = hn::GetLane(score.phi2(set(bound + std::max(0.0f, -penalty))));
  const float low = hn::GetLane(score.phi2(set(-bound - std::max(0.0f, penalty))));
  if (!(high < kSafePhi2 && low > -kSafePhi2)) return Mode::kGeneral;
  const AttentionProblem<float>& args = *visibility.args;
  const bool filters =
      args.mask.data != nullptr || args.window > 0 || args.alibi_slopes.data != nullptr;
  return filters ? Mode::kBoundedFiltered : Mode::kBounded;
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
SSA_AFTER_NAMESPACE();

#endif  // per-target include guard
