// Vector primitives for the scoring functions: the class M of scores-inl.h over SIMD vectors.
//
// All for float lanes. Errors are the largest seen by tests/kernels/math_test.cc (exhaustive where
// it says so), in units in the last place of the exact result:
//   function      valid range                         max error   outside
//   log2_1p(x)    [0, 2^127]                          4 ulp       +inf and NaN stay
//   exp2(y)       [-126, 127]                         3 ulp       below: 0; NaN stays
//   recip(x)      [2^-126, 2^126]                     1 ulp       NaN stays
//   tanh(x)       everywhere                          3 ulp       NaN stays
// log2_1p is relative to its own result for tiny x too: with b·|s| = 1e-5 and n = 1e5 (the softmax
// limit) an error of log2(1 + x) relative to 1 instead would cost 6e-3 in phi.

#if defined(SSA_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_MATH_INL_H_
#undef SSA_MATH_INL_H_
#else
#define SSA_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "ssa/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using UintTag = hn::Repartition<std::uint32_t, FloatTag>;
using IntTag = hn::Repartition<std::int32_t, FloatTag>;
using Floats = hn::Vec<FloatTag>;
using FloatMask = hn::Mask<FloatTag>;

inline constexpr int kLanes = HWY_LANES(float);

HWY_INLINE Floats set(float value) { return hn::Set(FloatTag(), value); }

/// max(low, x), except that NaN stays NaN (Highway's Max may drop it; x86 returns the second
/// operand).
HWY_INLINE Floats at_least(Floats low, Floats x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Max(low, x);
#else
  return hn::IfThenElse(hn::Lt(x, low), low, x);
#endif
}

/// min(high, x), except that NaN stays NaN.
HWY_INLINE Floats at_most(Floats high, Floats x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Min(high, x);
#else
  return hn::IfThenElse(hn::Gt(x, high), high, x);
#endif
}

/// c[0] + x·(c[1] + x·(…)).
template <std::size_t kSize>
HWY_INLINE Floats polynomial(Floats x, const std::array<float, kSize>& c) {
  Floats sum = set(c[kSize - 1]);
  for (std::size_t k = kSize - 1; k-- > 0;) sum = hn::MulAdd(sum, x, set(c[k]));
  return sum;
}

/// Polynomials only: every target. Coefficients are minimax (relative error, Lawson's iteration).
struct PortableMath {
  using V = Floats;

  HWY_INLINE V constant(double value) const { return set(static_cast<float>(value)); }
  HWY_INLINE V add(V a, V b) const { return hn::Add(a, b); }
  HWY_INLINE V sub(V a, V b) const { return hn::Sub(a, b); }
  HWY_INLINE V mul(V a, V b) const { return hn::Mul(a, b); }
  HWY_INLINE V abs(V a) const { return hn::Abs(a); }
  /// magnitude >= 0.
  HWY_INLINE V copy_sign(V magnitude, V sign) const { return hn::CopySignToAbs(magnitude, sign); }
  HWY_INLINE V recip(V a) const { return hn::Div(set(1.0f), a); }

  /// u = 1 + x = 2^e·m with m in [√½, √2), f = m − 1: log2(1 + x) = e + f·P(f). Where e = 0, f is x
  /// itself, so that no digit of a small x is lost to the rounding of 1 + x.
  HWY_INLINE V log2_1p(V x) const {
    constexpr std::array<float, 9> kP{1.442695004e+00f,  -7.213473468e-01f, 4.809106429e-01f,
                                      -3.607036828e-01f, 2.879162481e-01f,  -2.389448218e-01f,
                                      2.157156068e-01f,  -2.072697430e-01f, 1.258370126e-01f};
    const FloatTag d;
    const IntTag di;
    const V one = set(1.0f);
    const auto bits = hn::BitCast(di, hn::Add(x, one));
    const auto exponent = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));  // √½
    const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(exponent)));
    const V e = hn::ConvertTo(d, exponent);
    const V f = hn::IfThenElse(hn::Eq(e, hn::Zero(d)), x, hn::Sub(m, one));
    const V log = hn::MulAdd(f, polynomial(f, kP), e);
    return hn::IfThenElse(hn::Lt(x, set(std::numeric_limits<float>::infinity())), log, x);
  }

  HWY_INLINE V exp2(V y) const {
    return hn::IfThenZeroElse(hn::Lt(y, set(-126.0f)), exp2_in_range(y));
  }

  /// The same for −126 <= y <= 127, not checked.
  HWY_INLINE V exp2_in_range(V y) const {
    constexpr std::array<float, 5> kP{6.931469776e-01f, 2.402224209e-01f, 5.550733743e-02f,
                                      9.671512645e-03f, 1.326472712e-03f};
    // Adding 1.5·2^23 rounds to an integer, which then stands in the low bits, here with the
    // exponent's bias. The scale is multiplied, not added to the exponent's bits: NaN must stay
    // NaN.
    const V magic = set(12582912.0f + 127.0f);
    const V t = hn::Add(y, magic);
    const V f = hn::Sub(y, hn::Sub(t, magic));
    const V scale = hn::BitCast(FloatTag(), hn::ShiftLeft<23>(hn::BitCast(UintTag(), t)));
    return hn::MulAdd(hn::Mul(scale, f), polynomial(f, kP), scale);
  }

  /// |x| < 0.625: x + x³·P(x²); beyond: 1 − 2/(1 + e^2|x|).
  HWY_INLINE V tanh(V x) const {
    constexpr std::array<float, 5> kP{-3.333328194e-01f, 1.333144220e-01f, -5.373971505e-02f,
                                      2.063908716e-02f, -5.704986926e-03f};
    const V one = set(1.0f);
    const V magnitude = hn::Abs(x);
    const V square = hn::Mul(x, x);
    const V near = hn::MulAdd(hn::Mul(x, square), polynomial(square, kP), x);
    // From |x| = 10 on the result is 1 in float.
    const V power = exp2_in_range(hn::Mul(set(2.885390082f), at_most(set(10.0f), magnitude)));
    const V far = hn::NegMulAdd(set(2.0f), recip(hn::Add(power, one)), one);
    return hn::IfThenElse(hn::Lt(magnitude, set(0.625f)), near, hn::CopySignToAbs(far, x));
  }
};

#if HWY_TARGET <= HWY_AVX3

/// What TableMath looks up; computed once, as 48 logarithms and powers take longer than a short
/// head.
struct MathTables {
  alignas(64) float inverse[16], log[16], power[32];

  MathTables() {
    for (int k = 0; k < 16; ++k) {
      // Bin 0 has centre 1 and logarithm 0 exactly: there log2_1p(x) is x·P(x), right for tiny x.
      inverse[k] = k == 0 ? 1.0f : static_cast<float>(2.0 / (2.0 + (2 * k + 1) / 16.0));
      log[k] = static_cast<float>(-std::log2(static_cast<double>(inverse[k])));
    }
    for (int k = 0; k < 32; ++k) {
      // The exponent comes from the rounded argument's bits, shifted; its five bits below are
      // removed here.
      power[k] = static_cast<float>(std::exp2(k / 32.0));
      std::uint32_t bits;
      std::memcpy(&bits, &power[k], sizeof(bits));
      bits -= static_cast<std::uint32_t>(k) << 18;
      std::memcpy(&power[k], &bits, sizeof(bits));
    }
  }
};

/// AVX-512: 16- and 32-entry tables in registers instead of the longer polynomials. The same
/// interface.
struct TableMath : PortableMath {
  TableMath() {
    static const MathTables tables;
    const FloatTag d;
    inverse_ = hn::Load(d, tables.inverse);
    log_ = hn::Load(d, tables.log);
    power_low_ = hn::Load(d, tables.power);
    power_high_ = hn::Load(d, tables.power + 16);
  }

  /// 14 bits from the instruction, then one Newton step.
  HWY_INLINE V recip(V a) const {
    const V guess = hn::ApproximateReciprocal(a);
    return hn::MulAdd(guess, hn::NegMulAdd(a, guess, set(1.0f)), guess);
  }

  /// u = 1 + x = 2^e·m, m in [1, 2), 1/c from the top four bits of m, r = m/c − 1:
  /// log2(1 + x) = e + log2(c) + r·P(r). For u < 2, r = x/c + (1/c − 1) keeps all digits of x.
  HWY_INLINE V log2_1p(V x) const {
    constexpr std::array<float, 4> kP{1.442694980e+00f, -7.213623829e-01f, 4.811949662e-01f,
                                      -3.449382883e-01f};
    const FloatTag d;
    const UintTag du;
    const V one = set(1.0f);
    const V u = hn::Add(x, one);
    const auto bits = hn::BitCast(du, u);
    const V e = getexp(u);
    const auto index = hn::ShiftRight<19>(bits);
    const V inverse = lookup(inverse_, index);
    const FloatMask small = hn::Lt(u, set(2.0f));
    const V shift = hn::IfThenElse(small, hn::Sub(inverse, one), set(-1.0f));
    const V r = hn::MulAdd(mantissa_unless(small, u, x), inverse, shift);
    return hn::MulAdd(r, polynomial(r, kP), hn::Add(e, lookup(log_, index)));
  }

  HWY_INLINE V exp2(V y) const {
    return hn::IfThenZeroElse(hn::Lt(y, set(-126.0f)), exp2_in_range(y));
  }

  /// y = k/32 + f: 2^(k/32) from the table, 2^f by a polynomial of degree 2.
  HWY_INLINE V exp2_in_range(V y) const {
    constexpr std::array<float, 2> kP{6.931573303e-01f, 2.402265312e-01f};
    const V magic = set(1.5f * (1 << 18));  // one unit in the last place is 1/32
    const V t = hn::Add(y, magic);
    const V f = hn::Sub(y, hn::Sub(t, magic));
    const auto bits = hn::BitCast(UintTag(), t);
    const V scale = hn::BitCast(
        FloatTag(), hn::Add(hn::BitCast(UintTag(), lookup(power_low_, power_high_, bits)),
                            hn::ShiftLeft<18>(bits)));
    return hn::MulAdd(hn::Mul(scale, f), polynomial(f, kP), scale);
  }

 private:
  HWY_DIAGNOSTICS(push)
  // g++ 12 takes the undefined pass-through operand inside its own intrinsics for an uninitialised
  // value.
  HWY_DIAGNOSTICS_OFF(disable : 4701, ignored "-Wmaybe-uninitialized")
  HWY_DIAGNOSTICS_OFF(disable : 4701, ignored "-Wuninitialized")
  static HWY_INLINE V getexp(V u) { return V{_mm512_getexp_ps(u.raw)}; }
  /// m of u = 2^e·m with m in [1, 2); x where `skip`.
  static HWY_INLINE V mantissa_unless(FloatMask skip, V u, V x) {
    return V{_mm512_mask_getmant_ps(x.raw, _knot_mask16(skip.raw), u.raw, _MM_MANT_NORM_1_2,
                                    _MM_MANT_SIGN_src)};
  }
  /// The low 4 (one table) or 5 (two) bits of each index count.
  static HWY_INLINE V lookup(V table, hn::Vec<UintTag> index) {
    return V{_mm512_permutexvar_ps(index.raw, table.raw)};
  }
  static HWY_INLINE V lookup(V low, V high, hn::Vec<UintTag> index) {
    return V{_mm512_permutex2var_ps(low.raw, index.raw, high.raw)};
  }
  HWY_DIAGNOSTICS(pop)

  V inverse_, log_, power_low_, power_high_;
};

using VectorMath = TableMath;
#else
using VectorMath = PortableMath;
#endif

}  // namespace HWY_NAMESPACE
}  // namespace ssa
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
