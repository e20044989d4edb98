// THE list of scoring functions of the φ family: weights are softmax(φ(s)) over the visible keys.
//
// To add one, write a struct here and append it to ScoreList. Kernels, operator, modules, command
// line, tests, benches and tables iterate over that list (CONTRIBUTING.md, "add a scoring
// function").
//
// A struct is written once over a primitives class M that exists for double (reference), SIMD
// vectors (fused kernels) and tensors (composed path). With V = M::V, M offers:
//   constant(double) add sub mul abs copy_sign(magnitude, sign) recip
//   log2_1p(x) = log2(1 + x) for x >= 0, tanh
// phi2 is φ·log2(e), so that the weight is 2^phi2; the derivatives are those of φ itself.
// p[i] is parameter i in the order of kParams.
//
// Two hooks that a struct may have:
//   kCountsKeys = true: p[kParams.size()] is ln N, N the number of keys that the row sees.
//   kSink (what users read), sink2(m, p) and dsink_dparam<i>(m, p): the normaliser has the extra
//     term e^sink, sink2 = sink·log2(e), as of a key with value 0. lse does not contain it.
//
// The file is compiled once per SIMD target inside Highway's region: a plain header would be right
// at -O2 and silently wrong at -O0.

#include <array>

#include "ssa/score_info.h"

#if defined(SSA_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_SCORES_INL_H_
#undef SSA_SCORES_INL_H_
#else
#define SSA_SCORES_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

inline constexpr double kLog2E = 1.4426950408889634074;
inline constexpr double kLn2 = 0.69314718055994530942;

/// The Transformer's own function (arXiv 1706.03762): φ(s) = s.
struct Softmax {
  static constexpr std::string_view kName = "softmax";
  static constexpr std::string_view kFormula = "s";
  static constexpr std::string_view kHelp = "the exponential of the score, normalised";
  static constexpr std::array<ParamInfo, 0> kParams{};
  static constexpr std::array<GoldenPoint, 2> kGolden{{
      {-2.0, {}, -2.0, 1.0, {}},
      {0.5, {}, 0.5, 1.0, {}},
  }};

  template <class M, class V>
  static HWY_INLINE V phi2(const M& m, const V& s, const V*) {
    return m.mul(s, m.constant(kLog2E));
  }
  template <class M, class V>
  static HWY_INLINE V dphi_ds(const M& m, const V&, const V*) {
    return m.constant(1.0);
  }
};

/// Softmax with a temperature: φ(s) = s/τ.
struct Temperature {
  static constexpr std::string_view kName = "temperature";
  static constexpr std::string_view kFormula = "s/tau";
  static constexpr std::string_view kHelp = "softmax of the score divided by a temperature";
  static constexpr std::array<ParamInfo, 1> kParams{
      {{"tau", 1.0, 0.0, false, "temperature, > 0: above 1 flattens, below 1 sharpens"}}};
  static constexpr std::array<GoldenPoint, 2> kGolden{{
      {-2.0, {0.5}, -4.0, 2.0, {8.0}},
      {0.5, {2.0}, 0.25, 0.5, {-0.125}},
  }};

  template <class M, class V>
  static HWY_INLINE V phi2(const M& m, const V& s, const V* p) {
    return m.mul(s, m.mul(m.constant(kLog2E), m.recip(p[0])));
  }
  template <class M, class V>
  static HWY_INLINE V dphi_ds(const M& m, const V&, const V* p) {
    return m.recip(p[0]);
  }
  /// ∂φ/∂τ = −s/τ²
  template <int kParam, class M, class V>
  static HWY_INLINE V dphi_dparam(const M& m, const V& s, const V* p) {
    const V inverse = m.recip(p[0]);
    return m.mul(s, m.mul(m.constant(-1.0), m.mul(inverse, inverse)));
  }
};

/// Scaled Signed Averaging (arXiv 2508.14685): w(s) = (1 + b|s|)^(sgn(s)·n).
struct Ssa {
  static constexpr std::string_view kName = "ssa";
  static constexpr std::string_view kFormula = "sgn(s)·n·log(1 + b·|s|)";
  static constexpr std::string_view kHelp =
      "scaled signed averaging: grows like a power of the score";
  static constexpr std::array<ParamInfo, 2> kParams{
      {{"n", 1.5, 1.0, true, "exponent, > 0 (a trained module keeps n > 1)"},
       {"b", 0.8, 0.0, true, "slope inside the logarithm, > 0"}}};
  static constexpr std::array<GoldenPoint, 6> kGolden{{
      {-100, {1.5, 0.8}, -6.59167373201, 0.0148148148148, {-4.39444915467, -1.85185185185}},
      {-2, {1.5, 0.8}, -1.43326716754, 0.461538461538, {-0.955511445027, -1.15384615385}},
      {0, {1.5, 0.8}, 0, 1.2, {0, 0}},
      {1e-4, {1.5, 0.8}, 0.000119995200256, 1.19990400768, {7.99968001707e-5, 0.00014998800096}},
      {0.5, {1.5, 0.8}, 0.504708354932, 0.857142857143, {0.336472236621, 0.535714285714}},
      {100, {1.5, 0.8}, 6.59167373201, 0.0148148148148, {4.39444915467, 1.85185185185}},
  }};

  template <class M, class V>
  static HWY_INLINE V phi2(const M& m, const V& s, const V* p) {
    return m.mul(p[0], signed_log2(m, s, p));
  }
  /// ∂φ/∂s = n·b/(1 + b|s|)
  template <class M, class V>
  static HWY_INLINE V dphi_ds(const M& m, const V& s, const V* p) {
    return m.mul(m.mul(p[0], p[1]), inverse_base(m, s, p));
  }
  /// ∂φ/∂n = sgn(s)·log(1 + b|s|); ∂φ/∂b = n·s/(1 + b|s|)
  template <int kParam, class M, class V>
  static HWY_INLINE V dphi_dparam(const M& m, const V& s, const V* p) {
    if constexpr (kParam == 0) {
      return m.mul(m.constant(kLn2), signed_log2(m, s, p));
    } else {
      return m.mul(p[0], m.mul(s, inverse_base(m, s, p)));  // n·s alone may overflow
    }
  }

 private:
  /// sgn(s)·log2(1 + b|s|)
  template <class M, class V>
  static HWY_INLINE V signed_log2(const M& m, const V& s, const V* p) {
    return m.copy_sign(m.log2_1p(m.mul(p[1], m.abs(s))), s);
  }
  template <class M, class V>
  static HWY_INLINE V inverse_base(const M& m, const V& s, const V* p) {
    return m.recip(m.add(m.constant(1.0), m.mul(p[1], m.abs(s))));
  }
};

/// Soft cap of the score (Gemma 2, arXiv 2408.00118): φ(s) = c·tanh(s/c).
struct Softcap {
  static constexpr std::string_view kName = "softcap";
  static constexpr std::string_view kFormula = "c·tanh(s/c)";
  static constexpr std::string_view kHelp = "softmax of the score bent so that it stays within ±c";
  static constexpr std::array<ParamInfo, 1> kParams{
      {{"c", 50.0, 0.0, false, "cap, > 0: scores stay within ±c"}}};
  static constexpr std::array<GoldenPoint, 2> kGolden{{
      {-2.0, {2.0}, -1.52318831191, 0.419974341614, {-0.341619814342}},
      {0.5, {50.0}, 0.499983333999973, 0.999900006666289, {6.66613336571e-07}},
  }};

  template <class M, class V>
  static HWY_INLINE V phi2(const M& m, const V& s, const V* p) {
    return m.mul(m.mul(m.constant(kLog2E), p[0]), bent(m, s, p));
  }
  /// ∂φ/∂s = 1 − tanh²(s/c)
  template <class M, class V>
  static HWY_INLINE V dphi_ds(const M& m, const V& s, const V* p) {
    const V t = bent(m, s, p);
    return m.sub(m.constant(1.0), m.mul(t, t));
  }
  /// ∂φ/∂c = tanh(s/c) − (s/c)·(1 − tanh²(s/c))
  template <int kParam, class M, class V>
  static HWY_INLINE V dphi_dparam(const M& m, const V& s, const V* p) {
    return m.sub(bent(m, s, p), m.mul(m.mul(s, m.recip(p[0])), dphi_ds(m, s, p)));
  }

 private:
  template <class M, class V>
  static HWY_INLINE V bent(const M& m, const V& s, const V* p) {
    return m.tanh(m.mul(s, m.recip(p[0])));
  }
};

/// Scalable softmax (arXiv 2501.19399): φ(s) = σ·ln(N)·s, N the number of keys that the row sees.
struct ScalableSoftmax {
  static constexpr std::string_view kName = "ssmax";
  static constexpr std::string_view kFormula = "sigma·log(N)·s";
  static constexpr std::string_view kHelp =
      "scalable softmax: sharper the more keys (N) the row sees";
  static constexpr bool kCountsKeys = true;
  static constexpr std::array<ParamInfo, 1> kParams{
      {{"sigma", 0.43, 0.0, true, "scale, > 0: the factor of s is sigma·log(N)"}}};
  static constexpr std::array<GoldenPoint, 2> kGolden{{
      {-2.0, {0.5, 3.0}, -3.0, 1.5, {-6.0}},
      {0.5,
       {0.43, 0.693147180559945309},
       0.149026643820388,
       0.298053287640776,
       {0.346573590279973}},
  }};

  template <class M, class V>
  static HWY_INLINE V phi2(const M& m, const V& s, const V* p) {
    return m.mul(s, m.mul(m.constant(kLog2E), dphi_ds(m, s, p)));
  }
  template <class M, class V>
  static HWY_INLINE V dphi_ds(const M& m, const V&, const V* p) {
    return m.mul(p[0], p[1]);
  }
  /// ∂φ/∂σ = ln(N)·s
  template <int kParam, class M, class V>
  static HWY_INLINE V dphi_dparam(const M& m, const V& s, const V* p) {
    return m.mul(s, p[1]);
  }
};

/// Softmax with 1 added to the normaliser: a head may attend to nothing.
struct Softmax1 : Softmax {
  static constexpr std::string_view kName = "softmax1";
  static constexpr std::string_view kHelp = "softmax whose weights may sum to less than 1";
  static constexpr std::string_view kSink = "0";

  template <class M, class V>
  static HWY_INLINE V sink2(const M& m, const V*) {
    return m.constant(0.0);
  }
};

/// Softmax with a trained sink (arXiv 2309.17453): e^z added to the normaliser.
struct Sink : Softmax {
  static constexpr std::string_view kName = "sink";
  static constexpr std::string_view kHelp = "softmax1 with a trained size of the extra term";
  static constexpr std::string_view kSink = "z";
  static constexpr std::array<ParamInfo, 1> kParams{
      {{"z", 0.0, kAnyNumber, true, "score of the sink, which counts like a key with value 0",
        kAnyNumber}}};

  template <int kParam, class M, class V>
  static HWY_INLINE V dphi_dparam(const M& m, const V&, const V*) {
    return m.constant(0.0);
  }
  template <class M, class V>
  static HWY_INLINE V sink2(const M& m, const V* p) {
    return m.mul(p[0], m.constant(kLog2E));
  }
  template <int kParam, class M, class V>
  static HWY_INLINE V dsink_dparam(const M& m, const V*) {
    return m.constant(1.0);
  }
};

template <class... Scores>
struct TypeList {};

using ScoreList = TypeList<Softmax, Temperature, Ssa, Softcap, ScalableSoftmax, Softmax1, Sink>;

template <class Score>
inline constexpr bool kCountsKeys = requires {
  requires Score::kCountsKeys;
};
template <class Score>
inline constexpr bool kHasSink = requires {
  Score::kSink;
};

/// Calls f(Score{}) for every score of the list, in order.
template <class F, class... Scores>
HWY_INLINE void for_each_score(TypeList<Scores...>, F&& f) {
  (f(Scores{}), ...);
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
