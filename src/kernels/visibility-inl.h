// Which key a query sees: band, mask and bias; and what bias and ALiBi do to rows of scores.

#if defined(SSA_VISIBILITY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_VISIBILITY_INL_H_
#undef SSA_VISIBILITY_INL_H_
#else
#define SSA_VISIBILITY_INL_H_
#endif

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/band.h"
#include "kernels/packing-inl.h"

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

/// Which keys the queries of one head see.
struct Visibility : Band {
  const AttentionProblem<float>* args;
  Index batch, head;

  Visibility(const AttentionProblem<float>& a, Index b, Index h)
      : Band(a, b), args(&a), batch(b), head(h) {}

  /// What ALiBi takes from the score for a unit of distance.
  float slope() const {
    const HeadValues<const float>& slopes = args->alibi_slopes;
    return slopes.data == nullptr ? 0.0f : slopes.data[head * slopes.stride];
  }

  /// Whether mask or bias may hide keys inside the band.
  bool filtered() const { return args->mask.data != nullptr || args->bias.data != nullptr; }

  bool sees(Index i, Index j) const {
    return (args->mask.data == nullptr || *args->mask.at(batch, head, i, j)) &&
           (args->bias.data == nullptr || *args->bias.at(batch, head, i, j) != kMinusInfinity);
  }

  /// How many keys query i sees.
  Index count(Index i) const {
    if (!filtered()) return limit(i) - start(i);
    Index seen = 0;
    for (Index j = start(i); j < limit(i); ++j) seen += sees(i, j);
    return seen;
  }
};

/// Keys with a NaN or infinity in key or value that mask and bias hide from every row of every
/// query head of their group: they must not reach a result through 0 · NaN. Usually none.
template <class T>
std::vector<Index> poisoned_hidden_keys(const AttentionArgs<T>& args, Index b, Index kv) {
  const auto finite = [](const Matrix<T>& m, Index row, Index columns) {
    float sum = 0.0f;
    for (Index c = 0; c < columns; ++c) sum += 0.0f * m.at(row, c);
    return sum == 0.0f;
  };
  const Matrix<T> keys = matrix_of(args.key, b, kv), values = matrix_of(args.value, b, kv);
  const Index group = args.query_heads / args.kv_heads;
  const auto seen = [&](Index j) {
    for (Index h = kv * group; h < (kv + 1) * group; ++h) {
      const Visibility visibility(args, b, h);
      for (Index i = visibility.first_row(j); i < visibility.row_limit(j); ++i) {
        if (visibility.sees(i, j)) return true;
      }
    }
    return false;
  };
  std::vector<Index> hidden;
  for (Index j = 0; j < Visibility(args, b, kv * group).keys; ++j) {
    if (finite(keys, j, args.qk_dim) && finite(values, j, args.v_dim)) continue;
    if (!seen(j)) hidden.push_back(j);
  }
  return hidden;
}

/// Adds bias and ALiBi's penalty to rows of scores and writes −inf where a key is hidden.
class ScoreFilter {
 public:
  static constexpr Index kMaxKeys = 512;  // of one call
  static constexpr Index kScratch = kMaxKeys + kMaxKeys / 4;

  ScoreFilter(const Visibility& visibility, float* scratch)
      : visibility_(visibility),
        bias_(scratch),
        mask_(reinterpret_cast<std::uint8_t*>(scratch + kMaxKeys)) {}

  /// scores[j] belongs to query i and key first + j; only those of [begin, keys) may be seen, the
  /// others up to `padded` become −inf.
  void apply(Index i, Index first, Index begin, Index keys, Index padded, float* scores) const {
    const FloatTag d;
    const Floats hidden = set(kMinusInfinity);
    const AttentionProblem<float>& args = *visibility_.args;
    if (args.alibi_slopes.data != nullptr) {
      const Floats slope = set(visibility_.slope());
      for (Index j = 0; j < keys; j += kLanes) {
        const Floats ahead = hn::Iota(d, static_cast<float>(first + j - i - visibility_.shift));
        const Floats score = hn::NegMulAdd(slope, hn::Abs(ahead), hn::LoadU(d, scores + j));
        hn::StoreU(score, d, scores + j);
      }
    }
    if (args.bias.data != nullptr && keys > 0) {
      const float* bias = row(args.bias, i, first, keys, bias_);
      for (Index j = 0; j < keys; j += kLanes) {
        const Floats b = hn::LoadU(d, bias + j);
        const Floats sum = hn::Add(hn::LoadU(d, scores + j), b);
        hn::StoreU(hn::IfThenElse(hn::Eq(b, hidden), hidden, sum), d, scores + j);
      }
    }
    if (args.mask.data != nullptr && keys > 0) {
      const hn::Rebind<std::uint8_t, FloatTag> bytes;
      const UintTag du;
      const View4<const std::uint8_t> view{reinterpret_cast<const std::uint8_t*>(args.mask.data),
                                           args.mask.stride};
      const std::uint8_t* mask = row(view, i, first, keys, mask_);
      for (Index j = 0; j < keys; j += kLanes) {
        const auto seen = hn::PromoteTo(du, hn::LoadU(bytes, mask + j));
        const FloatMask none = hn::RebindMask(d, hn::Eq(seen, hn::Zero(du)));
        hn::StoreU(hn::IfThenElse(none, hidden, hn::LoadU(d, scores + j)), d, scores + j);
      }
    }
    std::fill(scores, scores + begin, kMinusInfinity);
    std::fill(scores + keys, scores + padded, kMinusInfinity);
  }

 private:
  /// keys contiguous values that may be read up to a whole vector.
  template <class T>
  const T* row(const View4<const T>& view, Index i, Index first, Index keys, T* copy) const {
    const T* from = view.at(visibility_.batch, visibility_.head, i, first);
    const Index stride = view.stride[3];
    if (stride == 1 && keys % kLanes == 0) return from;
    if (stride == 1) {
      std::copy_n(from, keys, copy);
    } else {
      for (Index j = 0; j < keys; ++j) copy[j] = from[j * stride];
    }
    std::fill(copy + keys, copy + round_up(keys, kLanes), T{0});
    return copy;
  }

  Visibility visibility_;
  float* bias_;
  std::uint8_t* mask_;
};

}  // namespace HWY_NAMESPACE
}  // namespace ssa
SSA_AFTER_NAMESPACE();

#endif  // per-target include guard
