// A vector of scores of one query in the backward pass: weights, their gradients and what the
// parameters' gradients are summed from.

#if defined(SSA_BACKWARD_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_BACKWARD_LANES_INL_H_
#undef SSA_BACKWARD_LANES_INL_H_
#else
#define SSA_BACKWARD_LANES_INL_H_
#endif

#include "kernels/head_score-inl.h"

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

template <class Score, class T>
struct BackwardLanes {
  /// What a row adds up, lane by lane.
  struct Sums {
    Floats d_phi, param[kParamSums<Score>],
        weighted[kParamSums<Score>];  ///< dφ, dφ·∂φ/∂param, p·∂φ/∂param

    HWY_INLINE Sums() {
      d_phi = hn::Zero(FloatTag());
      for (Floats& sum : param) sum = d_phi;
      for (Floats& sum : weighted) sum = d_phi;
    }
  };

  /// In: scores and dP. Out: weights and dS. Where `hidden`, everything is zero whatever came in.
  template <Mode kMode, bool kHides>
  static HWY_INLINE void run(const HeadScore<Score>& head, FloatMask hidden, Floats lse2,
                             Floats lse2_low, Floats delta, Floats& score_to_weight,
                             Floats& gradient, Sums& sums) {
    const Floats score = kHides ? hn::IfThenZeroElse(hidden, score_to_weight) : score_to_weight;
    // Beside the rounding of BFloat16, that of an lse2 that is not huge does not count.
    Floats exponent = hn::Sub(head.phi2(score), lse2);
    if constexpr (!kPairs<T> || kMode == Mode::kGeneral) exponent = hn::Sub(exponent, lse2_low);
    Floats weight = kMode == Mode::kGeneral
                        ? head.math.exp2(at_most(hn::Zero(FloatTag()), exponent))
                        : head.math.exp2_in_range(exponent);
    Floats d_phi = hn::Mul(weight, hn::Sub(gradient, delta));
    if constexpr (kHides) {
      weight = hn::IfThenZeroElse(hidden, weight);
      d_phi = hn::IfThenZeroElse(hidden, d_phi);
    }
    add_params<0>(head, score, weight, d_phi, sums);
    score_to_weight = weight;
    gradient = hn::Mul(d_phi, head.dphi_ds(score));
  }

 private:
  /// Parameter kParam and those after it.
  template <int kParam>
  static HWY_INLINE void add_params(const HeadScore<Score>& head, Floats score, Floats weight,
                                    Floats d_phi, Sums& sums) {
    if constexpr (kParam < static_cast<int>(Score::kParams.size())) {
      const Floats derivative = head.template dphi_dparam<kParam>(score);
      sums.param[kParam] = hn::MulAdd(d_phi, derivative, sums.param[kParam]);
      sums.weighted[kParam] = hn::MulAdd(weight, derivative, sums.weighted[kParam]);
      add_params<kParam + 1>(head, score, weight, d_phi, sums);
    } else if constexpr (kParam > 0) {
      sums.d_phi = hn::Add(sums.d_phi, d_phi);
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace ssa
SSA_AFTER_NAMESPACE();

#endif  // per-target include guard
