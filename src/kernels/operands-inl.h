// How the kernels see the caller's tensors: one head's matrix through strides, copied or packed
// where the tiles need it, and the rules of which key a query sees.

#if defined(SSA_OPERANDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_OPERANDS_INL_H_
#undef SSA_OPERANDS_INL_H_
#else
#define SSA_OPERANDS_INL_H_
#endif

#include <cstring>
#include <limits>
#include <vector>

#include "kernels/band.h"
#include "kernels/tile-inl.h"
#include "ssa/attention.h"

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

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

/// A score with the parameters of one query head. Loops copy it into a local variable first: stores
/// through vector pointers may alias members, which would be loaded anew for every vector of
/// scores.
template <class Score>
struct HeadScore {
  VectorMath math;
  Floats params[kMaxScoreParams];

  HeadScore(const AttentionProblem<float>& args, Index head) {
    for (std::size_t k = 0; k < kMaxScoreParams; ++k) {
      params[k] = k < Score::kParams.size() ? set(args.params[k].data[head * args.params[k].stride])
                                            : hn::Zero(FloatTag());
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
