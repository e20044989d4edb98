// Dropout of attention weights inside the fused kernels: the words of philox.h, a vector of
// counters at a time.

#if defined(SSA_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_DROPOUT_INL_H_
#undef SSA_DROPOUT_INL_H_
#else
#define SSA_DROPOUT_INL_H_
#endif

#include "kernels/pairs-inl.h"
#include "ssa/philox.h"

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

using Words = hn::Vec<UintTag>;

/// The four words of kLanes calls whose counters are (batch, head, row, fourth + lane).
struct PhiloxLanes {
  Words words[4];

  PhiloxLanes(std::uint64_t seed, std::uint32_t batch, std::uint32_t head, std::uint32_t row,
              std::uint32_t fourth) {
    const UintTag d;
#if HWY_TARGET == HWY_SCALAR
    const PhiloxWords one = philox4x32(seed, {batch, head, row, fourth});
    for (int k = 0; k < 4; ++k) words[k] = hn::Set(d, one[k]);
#else
    // Even and odd lanes apart, each the low half of a 64-bit lane: the 64-bit product's halves are
    // where the next round wants them, and what stands in the high halves is never read.
    const Words lanes = hn::Add(hn::Set(d, fourth), hn::Iota(d, 0));
    Half even{{hn::Set(d, batch), hn::Set(d, head), hn::Set(d, row), lanes}};
    Half odd{{even.c[0], even.c[1], even.c[2], high(lanes)}};
    auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      even.next(hn::Set(d, key0), hn::Set(d, key1));
      odd.next(hn::Set(d, key0), hn::Set(d, key1));
      key0 += kPhiloxWeyl[0];
      key1 += kPhiloxWeyl[1];
    }
    for (int k = 0; k < 4; ++k) {
      const Words shifted = hn::BitCast(d, hn::ShiftLeft<32>(hn::BitCast(kLongs, odd.c[k])));
      words[k] = hn::OddEven(shifted, even.c[k]);
    }
#endif
  }

 private:
#if HWY_TARGET != HWY_SCALAR
  static constexpr hn::Repartition<std::uint64_t, UintTag> kLongs{};

  static HWY_INLINE Words high(Words x) {
    return hn::BitCast(UintTag(), hn::ShiftRight<32>(hn::BitCast(kLongs, x)));
  }

  struct Half {
    Words c[4];

    HWY_INLINE void next(Words key0, Words key1) {
      const UintTag d;
      const Words product0 = hn::BitCast(d, hn::MulEven(hn::Set(d, kPhiloxMultipliers[0]), c[0]));
      const Words product1 = hn::BitCast(d, hn::MulEven(hn::Set(d, kPhiloxMultipliers[1]), c[2]));
      c[0] = hn::Xor3(high(product1), c[1], key0);
      c[2] = hn::Xor3(high(product0), c[3], key1);
      c[1] = product1;
      c[3] = product0;
    }
  };
#endif
};

/// Which weights of one head fall.
class Dropout {
 public:
  Dropout(std::uint64_t seed, double p, Index batch, Index head)
      : seed_(seed),
        threshold_(dropout_threshold(p)),
        batch_(static_cast<std::uint32_t>(batch)),
        head_(static_cast<std::uint32_t>(head)),
        scale_(static_cast<float>(1 / (1 - p))),
        active_(p > 0) {}
  Dropout(const AttentionProblem<float>& args, Index batch, Index head)
      : Dropout(args.seed, args.dropout, args.first_sequence + batch, head) {}

  bool active() const { return active_; }
  /// What the weights that stay are multiplied by.
  float scale() const { return scale_; }

  /// Weights j < count, operands of T, belong to query i and key first + j; those that fall become
  /// 0. `first` is a multiple of kLanes; whole vectors are written.
  template <class T>
  void drop(Index i, Index first, Index count, float* weights) const {
    const FloatTag d;
    for_each_vector(i, first, count, [&](Index j, FloatMask falls) {
      if constexpr (kPairs<T>) {
        const hn::Rebind<std::uint16_t, FloatTag> half;
        auto* at = reinterpret_cast<std::uint16_t*>(weights) + j;
        const auto kept = hn::IfThenZeroElse(hn::RebindMask(IntTag(), falls),
                                             hn::PromoteTo(IntTag(), hn::LoadU(half, at)));
        hn::StoreU(hn::DemoteTo(half, kept), half, at);
      } else {
        hn::StoreU(hn::IfThenZeroElse(falls, hn::LoadU(d, weights + j)), d, weights + j);
      }
    });
  }

  /// The factors 0 or scale() of the same weights.
  void write_factors(Index i, Index first, Index count, float* factors) const {
    for_each_vector(i, first, count, [&](Index j, FloatMask falls) {
      hn::StoreU(hn::IfThenZeroElse(falls, set(scale_)), FloatTag(), factors + j);
    });
  }

  /// f(j, falls) for every vector of the columns first … first + count − 1 of row i, in no order
  /// that matters: falls holds the lanes j, j + 1, … counted from `first`.
  template <class F>
  void for_each_vector(Index i, Index first, Index count, F&& f) const {
    constexpr auto kGroup = static_cast<Index>(kDropoutGroup);
    static_assert(16 % kLanes == 0, "a vector holds columns of one word");
    const UintTag d;
    const Words threshold = hn::Set(d, threshold_);
    const auto row = static_cast<std::uint32_t>(i);
    for (Index group = first / kGroup; group * kGroup < first + count; ++group) {
      for (Index lane = 0; lane < 16; lane += kLanes) {
        const PhiloxLanes random(seed_, batch_, head_, row,
                                 static_cast<std::uint32_t>(16 * group + lane));
        for (int k = 0; k < 4; ++k) {
          const Index j = group * kGroup + 16 * k + lane - first;
          if (j < 0 || j >= count) continue;
          f(j, hn::RebindMask(FloatTag(), hn::Lt(random.words[k], threshold)));
        }
      }
    }
  }

 private:
  std::uint64_t seed_;
  std::uint32_t threshold_, batch_, head_;
  float scale_;
  bool active_;
};

}  // namespace HWY_NAMESPACE
}  // namespace ssa
SSA_AFTER_NAMESPACE();

#endif  // per-target include guard
