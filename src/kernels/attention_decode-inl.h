// The fused forward pass of few queries: every key and value is read once for all query heads of
// its group, where it lies.
//
// With few queries the time is that of reading keys and values from memory: packing keys into
// panels would write them once more. Keys are cut into chunks of one size whatever the number of
// threads; a chunk's scores are all there before the first becomes a weight, so that its largest is
// known. Chunks are merged in their order.

#if defined(SSA_ATTENTION_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_ATTENTION_DECODE_INL_H_
#undef SSA_ATTENTION_DECODE_INL_H_
#else
#define SSA_ATTENTION_DECODE_INL_H_
#endif

#include <cmath>
#include <vector>

#include "kernels/attention_decode.h"
#include "kernels/head_score-inl.h"
#include "kernels/lane_sums-inl.h"
#include "kernels/scratch.h"

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

/// to (width, whole vectors) = factor · from (columns, strided), padded with zeros.
template <class T>
void widen(const T* from, Index stride, Index columns, float factor, float* to, Index width) {
  Index c = 0;
  for (; stride == 1 && c + kLanes <= columns; c += kLanes) {
    hn::StoreU(hn::Mul(set(factor), load_floats(from + c)), FloatTag(), to + c);
  }
  for (; c < columns; ++c) to[c] = factor * static_cast<float>(from[c * stride]);
  for (; c < width; ++c) to[c] = 0.0f;
}

/// Query rows that share the loads of keys and values.
inline constexpr int kSharedRows = HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON ? 4 : 2;

/// Rows of keys or values: row j starts at data + j·stride.
template <class T>
struct Rows {
  const T* data;
  Index stride;

  const T* row(Index j) const { return data + j * stride; }
};

/// scores[r·ld + j] = query_r·key_j for kR queries of `width` floats and `count` keys. Writes up to
/// a multiple of four.
template <int kR, class T>
void dots(const float* query, Index width, Rows<T> keys, Index count, float* scores, Index ld) {
  const FloatTag d;
  for (Index j = 0; j < count; j += 4) {
    const T* key[4];  // past the last the last again
    for (Index n = 0; n < 4; ++n) key[n] = keys.row(std::min(j + n, count - 1));
    Floats sum[kR][4];
#pragma GCC unroll 4
    for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < 4; ++n) sum[r][n] = hn::Zero(d);
    }
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) {
      for (Index c = 0; c < width; c += kLanes) {
        const Floats x = load_floats(key[n] + c);
#pragma GCC unroll 4
        for (int r = 0; r < kR; ++r) {
          sum[r][n] = hn::MulAdd(hn::LoadU(d, query + r * width + c), x, sum[r][n]);
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kR; ++r) store_sums(sum[r], scores + r * ld + j);
  }
}

/// sums (kR rows × kV vectors) += weights (kR × count) · values.
template <int kR, int kV, class T>
void add_products(const float* weights, Index ld, Rows<T> values, Index count, float* sums,
                  Index sums_ld) {
  const FloatTag d;
  Floats sum[kR][kV];
#pragma GCC unroll 4
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) sum[r][v] = hn::LoadU(d, sums + r * sums_ld + v * kLanes);
  }
  for (Index j = 0; j < count; ++j) {
    Floats x[kV];
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) x[v] = load_floats(values.row(j) + v * kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < kR; ++r) {
      const Floats weight = set(weights[r * ld + j]);
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) sum[r][v] = hn::MulAdd(weight, x[v], sum[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) hn::StoreU(sum[r][v], d, sums + r * sums_ld + v * kLanes);
  }
}

/// The same for `width` floats, whole vectors; whole rows at a time as far as registers go, because
/// processors fetch ahead what is read in order.
template <int kR, class T>
void add_rows(const float* weights, Index ld, Rows<T> values, Index count, float* sums,
              Index sums_ld, Index width) {
  Index c = 0;
  const auto columns = [&]<int kV>() {
    for (; c + kV * kLanes <= width; c += kV * kLanes, values.data += kV * kLanes) {
      add_products<kR, kV>(weights, ld, values, count, sums + c, sums_ld);
    }
  };
  if constexpr (kR == 1) columns.template operator()<2 * kSharedRows>();
  columns.template operator()<kSharedRows>();
  columns.template operator()<1>();
}

/// Calls f(rows, first, count) for blocks of rows [first, first + count) of a head: where they lie
/// if they are contiguous in whole vectors and need not be copied, else widened into `copy`.
template <class T, class F>
void for_each_block(const View4<const T>& view, Index batch, Index head, Index begin, Index end,
                    Index columns, Index width, bool copied, float* copy, Index block, F&& f) {
  copied = copied || view.stride[3] != 1 || columns != width;
  for (Index first = begin; first < end; first += block) {
    const Index count = std::min(block, end - first);
    if (!copied) {
      f(Rows<T>{view.at(batch, head, first), view.stride[2]}, first, count);
      continue;
    }
    for (Index j = 0; j < count; ++j) {
      widen(view.at(batch, head, first + j), view.stride[3], columns, 1.0f, copy + j * width,
            width);
    }
    f(Rows<float>{copy, width}, first, count);
  }
}

/// One chunk of keys, all query rows of the task.
template <class Score, class T>
class DecodeChunk {
 public:
  DecodeChunk(const AttentionArgs<T>& args, const DecodeTask& task, Index chunk)
      : args_(args),
        task_(task),
        chunk_(chunk),
        group_(args.query_heads / args.kv_heads),
        first_(chunk * kDecodeChunk),
        keys_(std::min(visibility(0).limit(args.query_length - 1) - first_, kDecodeChunk)),
        filtered_(visibility(0).filtered()),
        qk_width_(round_up(args.qk_dim, kLanes)),
        v_width_(round_up(args.v_dim, kLanes)),
        scratch_(Scratch::size_of(task.rows * qk_width_) +
                 Scratch::size_of(task.rows * kDecodeChunk) +
                 Scratch::size_of(kBlock * std::max(qk_width_, v_width_)) +
                 Scratch::size_of(ScoreFilter::kScratch)),
        query_(scratch_.take(task.rows * qk_width_)),
        scores_(scratch_.take(task.rows * kDecodeChunk)),
        copy_(scratch_.take(kBlock * std::max(qk_width_, v_width_))),
        filter_scratch_(scratch_.take(ScoreFilter::kScratch)) {}

  void run() {
    for (Index r = 0; r < task_.rows; ++r) partial(r).total() = 0.0f;
    if (keys_ <= 0) return;
    compute_scores();
    for (Index r = 0; r < task_.rows; ++r) filter(r);
    const std::vector<Index> hidden = hidden_keys();
    for (Index h = 0; h < group_; ++h) {
      HeadScore<Score> score(args_, task_.kv * group_ + h);
      for (Index i = 0; i < args_.query_length; ++i) {
        if constexpr (kCountsKeys<Score>) score.see(visibility(h).count(i));
        transform(score, h * args_.query_length + i);
      }
    }
    add_values(hidden);
  }

 private:
  static constexpr Index kBlock =
      32;  ///< rows of keys or values that stay in L1 for all query rows
  static_assert(kDecodeChunk <= ScoreFilter::kMaxKeys && kDecodeChunk % kBlock == 0);

  Visibility visibility(Index h) const { return {args_, task_.batch, task_.kv * group_ + h}; }
  DecodePartial partial(Index r) const { return task_.partial(chunk_, r); }
  float* scores(Index r) const { return scores_ + r * kDecodeChunk; }

  void compute_scores() {
    for (Index r = 0; r < task_.rows; ++r) {
      const Index head = task_.kv * group_ + r / args_.query_length;
      widen(args_.query.at(task_.batch, head, r % args_.query_length), args_.query.stride[3],
            args_.qk_dim, args_.scale, query_ + r * qk_width_, qk_width_);
    }
    for_each_block(args_.key, task_.batch, task_.kv, first_, first_ + keys_, args_.qk_dim,
                   qk_width_, false, copy_, kBlock, [&](auto keys, Index first, Index count) {
                     for_each_strip([&]<int kR>(Index r) {
                       dots<kR>(query_ + r * qk_width_, qk_width_, keys, count,
                                scores(r) + first - first_, kDecodeChunk);
                     });
                   });
  }

  /// Adds the bias to a row and writes −inf where a key is hidden.
  void filter(Index r) {
    const Visibility seen = visibility(r / args_.query_length);
    const Index i = r % args_.query_length;
    const Index limit = std::clamp<Index>(seen.limit(i) - first_, 0, keys_);
    ScoreFilter(seen, filter_scratch_)
        .apply(i, first_, 0, limit, round_up(keys_, kLanes), scores(r));
  }

  /// Keys that mask and bias hide from every row: their values must not reach a sum as 0 · NaN.
  std::vector<Index> hidden_keys() const {
    std::vector<Index> hidden;
    for (Index j = 0; filtered_ && j < keys_; ++j) {
      Index r = 0;
      while (r < task_.rows && scores(r)[j] == kMinusInfinity) ++r;
      if (r == task_.rows) hidden.push_back(j);
    }
    return hidden;
  }

  /// Scores of a row become weights 2^(φ2 − φ2 of the largest score), 0 where hidden.
  void transform(const HeadScore<Score> score, Index r) {
    const FloatTag d;
    const Index padded = round_up(keys_, kLanes);
    float* row = scores(r);
    Floats vector_max = set(kMinusInfinity);
    for (Index j = 0; j < padded; j += kLanes) {
      vector_max = hn::Max(vector_max, hn::LoadU(d, row + j));
    }
    const float largest = hn::GetLane(hn::MaxOfLanes(d, vector_max));
    const float reference = largest > kMinusInfinity ? hn::GetLane(score.phi2(set(largest))) : 0.0f;
    Floats total = hn::Zero(d);
    for (Index j = 0; j < padded; j += kLanes) {
      const Floats s = hn::LoadU(d, row + j);
      const Floats power = score.math.exp2(hn::Sub(score.phi2(s), set(reference)));
      const Floats weight = hn::IfThenZeroElse(hn::Eq(s, set(kMinusInfinity)), power);
      hn::StoreU(weight, d, row + j);
      total = hn::Add(total, weight);
    }
    partial(r).reference() = reference;
    partial(r).total() = hn::GetLane(hn::SumOfLanes(d, total));
  }

  void add_values(const std::vector<Index>& hidden) {
    for (Index r = 0; r < task_.rows; ++r) std::fill_n(partial(r).sums, v_width_, 0.0f);
    auto next = hidden.begin();
    for_each_block(args_.value, task_.batch, task_.kv, first_, first_ + keys_, args_.v_dim,
                   v_width_, filtered_, copy_, kBlock, [&](auto values, Index first, Index count) {
                     for (; next != hidden.end() && *next < first - first_ + count; ++next) {
                       std::fill_n(copy_ + (*next - (first - first_)) * v_width_, v_width_, 0.0f);
                     }
                     for_each_strip([&]<int kR>(Index r) {
                       add_rows<kR>(scores(r) + first - first_, kDecodeChunk, values, count,
                                    partial(r).sums, task_.row_size, v_width_);
                     });
                   });
  }

  /// Calls f<kR>(r) for strips of rows [r, r + kR).
  template <class F>
  void for_each_strip(F&& f) const {
    Index r = 0;
    for (; r + kSharedRows <= task_.rows; r += kSharedRows) f.template operator()<kSharedRows>(r);
    for (; r < task_.rows; ++r) f.template operator()<1>(r);
  }

  const AttentionArgs<T>& args_;
  const DecodeTask& task_;
  const Index chunk_, group_;
  const Index first_, keys_;  ///< keys [first, first + keys)
  const bool filtered_;
  const Index qk_width_, v_width_;
  Scratch scratch_;
  float *query_, *scores_, *copy_, *filter_scratch_;
};

/// Merges a row's chunks in their order and writes its results.
template <class Score, class T>
void merge_chunks(const AttentionArgs<T>& args, const DecodeTask& task, Index r,
                  const View4<T>& out, float* lse) {
  const FloatTag d;
  float reference = kMinusInfinity;
  bool sees_nothing = true;
  for (Index c = 0; c < task.chunks; ++c) {
    const DecodePartial partial = task.partial(c, r);
    if (partial.total() == 0) continue;
    sees_nothing = false;
    reference = std::max(reference, partial.reference());
  }
  const Index v_width = round_up(args.v_dim, kLanes);
  float* sums = task.partial(0, r).sums;
  float total = 0.0f;
  for (Index c = 0; c < task.chunks; ++c) {
    const DecodePartial partial = task.partial(c, r);
    if (partial.total() == 0) {
      if (c == 0) std::fill_n(sums, v_width, 0.0f);
      continue;
    }
    const float factor = std::exp2(partial.reference() - reference);
    total += factor * partial.total();
    for (Index j = 0; j < v_width; j += kLanes) {
      const Floats before = c == 0 ? hn::Zero(d) : hn::LoadU(d, sums + j);
      hn::StoreU(hn::MulAdd(set(factor), hn::LoadU(d, partial.sums + j), before), d, sums + j);
    }
  }
  const Index head = task.kv * (args.query_heads / args.kv_heads) + r / args.query_length;
  const Index i = r % args.query_length;
  lse[(task.batch * args.query_heads + head) * args.query_length + i] =
      sees_nothing ? kMinusInfinity : static_cast<float>(kLn2 * reference + std::log(total));
  float normaliser = total;
  if constexpr (kHasSink<Score>) {
    normaliser += std::exp2(HeadScore<Score>(args, head).sink2() - reference);
  }
  const float factor = sees_nothing ? 0.0f : 1 / normaliser;
  for (Index c = 0; c < args.v_dim; ++c) {
    *out.at(task.batch, head, i, c) = static_cast<T>(factor * sums[c]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
SSA_AFTER_NAMESPACE();

#endif  // per-target include guard
