// The fused forward pass of one head for a range of queries.
//
// A block of query rows walks over blocks of keys; within it, strips of kTileRows rows: scores of
// the strip into L1 (tile), weights in place (transform), weights times values into the block's
// sums (tile). A row's arithmetic does not depend on how queries are split into tasks, blocks and
// strips, so neither do the bits of the result.

#if defined(SSA_ATTENTION_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_ATTENTION_FORWARD_INL_H_
#undef SSA_ATTENTION_FORWARD_INL_H_
#else
#define SSA_ATTENTION_FORWARD_INL_H_
#endif

#include <cmath>

#include "kernels/dropout-inl.h"
#include "kernels/head_score-inl.h"
#include "kernels/pairs-inl.h"
#include "kernels/scratch.h"
#include "kernels/tasks.h"

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

template <class Score, class T>
class Forward {
 public:
  Forward(const AttentionArgs<T>& args, const ForwardOutputs<T>& outputs, const ForwardTask& task)
      : args_(args),
        outputs_(outputs),
        task_(task),
        kv_(task.head / (args.query_heads / args.kv_heads)),
        visibility_(args, task.batch, task.head),
        keys_(visibility_.limit(task.last - 1)),
        base_(visibility_.start(task.first) / kPanel * kPanel),
        qk_depth_(depth<T>(args.qk_dim)),
        qk_width_(round_up(qk_depth_, kLanes)),
        v_width_(outputs.out.data == nullptr ? 0 : round_up(args.v_dim, kLanes)),
        score_(args, task.head),
        copy_values_(v_width_ > 0 &&
                     (kPairs<T> || visibility_.filtered() ||
                      !matrix_of(args.value, task.batch, kv_).is_packed(args.v_dim, v_width_))),
        scratch_(scratch_size()),
        panels_(scratch_.take(panels_size<T>(keys_ - base_, args.qk_dim))),
        value_copy_(scratch_.take(copy_values_ ? depth<T>(keys_ - base_) * v_width_ : 0)),
        query_(scratch_.take(kQueryBlock * qk_width_)),
        scores_(scratch_.take(kTileRows * kKeyBlock)),
        sums_(scratch_.take(kQueryBlock * v_width_)),
        totals_(scratch_.take(kQueryBlock * kLanes)),
        largest_(scratch_.take(kQueryBlock)),
        largest_phi2_(scratch_.take(kQueryBlock)),
        keys_seen_(kCountsKeys<Score> ? kQueryBlock : 0),
        filter_(visibility_, scratch_.take(ScoreFilter::kScratch)),
        dropout_(args, task.batch, task.head) {}

  void run() {
    pack_keys_and_values();
    for (Index first = task_.first; first < task_.last; first += kQueryBlock) {
      const Index rows = std::min(kQueryBlock, task_.last - first);
      Matrix<T> query = matrix_of(args_.query, task_.batch, task_.head);
      query.data = query.row(first);
      copy_rows(query, rows, args_.qk_dim, args_.scale, query_, qk_width_);
      // What a query that sees no key holds must not choose the block's mode.
      for (Index r = 0; r < rows; ++r) {
        if (visibility_.start(first + r) < visibility_.limit(first + r)) continue;
        std::fill_n(query_ + r * qk_width_, qk_width_, 0.0f);
      }
      const float q2 =
          largest_square_of_rows<T>(query_, rows, qk_width_) * tile_factor() * tile_factor();
      for (Index r = 0; kCountsKeys<Score> && r < rows; ++r) {
        keys_seen_[r] = visibility_.count(first + r);
      }
      Mode mode = choose_mode(visibility_, q2, largest_key_square_, score_);
      if (outputs_.lse2_high != nullptr) mode = Mode::kGeneral;  // high is the maximum
      if (mode == Mode::kBounded) block<Mode::kBounded>(first, rows);
      if (mode == Mode::kBoundedFiltered) block<Mode::kBoundedFiltered>(first, rows);
      // Huge or infinite values may overflow the unnormalised sums: then once more, normalised.
      if (mode != Mode::kGeneral && !sums_are_finite(rows)) mode = Mode::kGeneral;
      if (mode == Mode::kGeneral) block<Mode::kGeneral>(first, rows);
      finish(first, rows);
    }
  }

 private:
  /// Queries of float are scaled when they are copied, others when they have become scores.
  float tile_factor() const { return kPairs<T> ? args_.scale : 1.0f; }

  static constexpr Index kQueryBlock = 96;
  static constexpr Index kKeyBlock = 256 / kPanel * kPanel;
  static_assert(kQueryBlock % kTileRows == 0 && kKeyBlock <= ScoreFilter::kMaxKeys);

  Index scratch_size() const {
    const auto size = Scratch::size_of;
    return size(panels_size<T>(keys_ - base_, args_.qk_dim)) +
           size(copy_values_ ? depth<T>(keys_ - base_) * v_width_ : 0) +
           size(kQueryBlock * qk_width_) + size(kTileRows * kKeyBlock) +
           size(kQueryBlock * v_width_) + size(kQueryBlock * kLanes) + 2 * size(kQueryBlock) +
           size(ScoreFilter::kScratch);
  }

  void pack_keys_and_values() {
    Matrix<T> key = matrix_of(args_.key, task_.batch, kv_);
    Matrix<T> value = matrix_of(args_.value, task_.batch, kv_);
    key.data = key.row(base_);
    value.data = value.row(base_);
    const Index keys = keys_ - base_;
    pack_panels(key, keys, args_.qk_dim, panels_);
    if (copy_values_) stack_rows(value, keys, args_.v_dim, value_copy_, v_width_);
    values_ = value_copy_;
    if constexpr (!kPairs<T>) values_ = copy_values_ ? value_copy_ : value.data;
    for (Index j = base_; j < std::min(visibility_.first_seen(), keys_); ++j) erase(j);
    if (visibility_.filtered()) {
      for (const Index j : poisoned_hidden_keys(args_, task_.batch, kv_)) {
        if (j >= base_ && j < keys_) erase(j);
      }
    }
    largest_key_square_ = largest_square<T>(panels_, keys, qk_depth_);
  }

  /// Key j and, where they are copied, its values become zero.
  void erase(Index j) {
    erase_key(panels_, j - base_, qk_depth_);
    if (copy_values_) erase_row<T>(value_copy_, j - base_, v_width_);
  }

  template <Mode kMode>
  void block(Index first, Index rows) {
    std::fill_n(sums_, rows * v_width_, 0.0f);
    std::fill_n(totals_, rows * kLanes, 0.0f);
    std::fill_n(largest_, rows, kMinusInfinity);
    std::fill_n(largest_phi2_, rows, 0.0f);
    const Index keys = visibility_.limit(first + rows - 1);
    for (Index k0 = visibility_.start(first) / kKeyBlock * kKeyBlock; k0 < keys; k0 += kKeyBlock) {
      for (Index r = 0; r < rows; r += kTileRows) {
        const Index strip_rows = std::min<Index>(kTileRows, rows - r);
        const Index start = std::max(k0, visibility_.start(first + r) / kPanel * kPanel);
        const Index limit = std::min(k0 + kKeyBlock, visibility_.limit(first + r + strip_rows - 1));
        if (start < limit) strip<kMode>(first, r, strip_rows, start, limit - start);
      }
    }
  }

  /// Rows [r, r + rows) of the block × keys [k0, k0 + keys).
  template <Mode kMode>
  void strip(Index first, Index r, Index rows, Index k0, Index keys) {
    multiply_panels<T>(rows, keys, query_ + r * qk_width_, qk_width_, qk_depth_,
                       panels_ + (k0 - base_) * qk_depth_, scores_, kKeyBlock, tile_factor());
    const Index padded = round_up(keys, kLanes);
    for (Index row = 0; row < rows; ++row) {
      const Index i = first + r + row;
      float* scores = scores_ + row * kKeyBlock;
      const Index limit = std::clamp<Index>(visibility_.limit(i) - k0, 0, keys);
      if constexpr (kMode != Mode::kBounded) {
        const Index begin = std::clamp<Index>(visibility_.start(i) - k0, 0, limit);
        filter_.apply(i, k0, begin, limit, padded, scores);
      }
      if constexpr (kMode == Mode::kGeneral) raise_maximum(r + row, scores, padded);
      transform<kMode>(r + row, limit, padded, scores);
      if (dropout_.active() && v_width_ > 0) dropout_.drop<T>(i, k0, padded, scores);
    }
    // Values in front of the first that the strip sees may be those that no row sees.
    const Index lead =
        std::clamp<Index>(visibility_.start(first + r) - k0, 0, keys) / kDepth<T> * kDepth<T>;
    multiply<T, Storage::kRows>(rows, v_width_, scores_ + lead / kDepth<T>, kKeyBlock,
                                depth<T>(keys - lead),
                                values_ + (k0 - base_ + lead) / kDepth<T> * v_width_, v_width_,
                                sums_ + r * v_width_, v_width_);
  }

  /// The score as row r of the block knows it.
  HeadScore<Score> score_of([[maybe_unused]] Index r) const {
    HeadScore<Score> score = score_;
    if constexpr (kCountsKeys<Score>) score.see(keys_seen_[r]);
    return score;
  }

  /// Online softmax (arXiv 1805.02867): the running maximum and what it rescales. φ does not
  /// decrease, so the largest score has the largest φ.
  void raise_maximum(Index row, const float* scores, Index padded) {
    const FloatTag d;
    Floats vector_max = set(largest_[row]);
    for (Index j = 0; j < padded; j += kLanes) {
      vector_max = hn::Max(vector_max, hn::LoadU(d, scores + j));
    }
    const float largest = hn::GetLane(hn::MaxOfLanes(d, vector_max));
    if (!(largest > largest_[row])) return;
    const float phi2 = hn::GetLane(score_of(row).phi2(set(largest)));
    if (largest_[row] != kMinusInfinity) {
      const Floats factor = score_.math.exp2(set(largest_phi2_[row] - phi2));
      float* total = totals_ + row * kLanes;
      hn::StoreU(hn::Mul(factor, hn::LoadU(d, total)), d, total);
      float* sums = sums_ + row * v_width_;
      for (Index c = 0; c < v_width_; c += kLanes) {
        hn::StoreU(hn::Mul(factor, hn::LoadU(d, sums + c)), d, sums + c);
      }
    }
    largest_[row] = largest;
    largest_phi2_[row] = phi2;
  }

  /// Scores j, j + 1, … of a row become these weights, as an operand of T. Those of pairs take half
  /// of their room, which has been read.
  static HWY_INLINE void store_weights(Floats weights, float* scores, Index j) {
    if constexpr (kPairs<T>) {
      store_narrow<T>(weights, scores + j / 2);
    } else {
      hn::StoreU(weights, FloatTag(), scores + j);
    }
  }

  /// scores[0, padded) become weights 2^(φ2 − maximum), zero from limit on and where hidden.
  template <Mode kMode>
  void transform(Index row, Index limit, Index padded, float* scores) {
    const FloatTag d;
    const HeadScore<Score> head = score_of(row);
    const Floats largest = set(largest_phi2_[row]);
    float* total = totals_ + row * kLanes;
    Floats even = hn::LoadU(d, total), odd = hn::Zero(d);
    Index j = 0;
    if constexpr (kMode == Mode::kBounded) {
      for (; j + 2 * kLanes <= limit; j += 2 * kLanes) {
        const Floats x = weight<kMode>(head, largest, hn::LoadU(d, scores + j));
        const Floats y = weight<kMode>(head, largest, hn::LoadU(d, scores + j + kLanes));
        store_weights(x, scores, j);
        store_weights(y, scores, j + kLanes);
        even = hn::Add(even, x);
        odd = hn::Add(odd, y);
      }
      for (; j < limit; j += kLanes) {
        const FloatMask inside = hn::FirstN(d, static_cast<std::size_t>(limit - j));
        const Floats x =
            hn::IfThenElseZero(inside, weight<kMode>(head, largest, hn::LoadU(d, scores + j)));
        store_weights(x, scores, j);
        even = hn::Add(even, x);
      }
      for (; j < padded; j += kLanes) store_weights(hn::Zero(d), scores, j);
    } else {
      for (; j < padded; j += kLanes) {
        const Floats x = weight<kMode>(head, largest, hn::LoadU(d, scores + j));
        store_weights(x, scores, j);
        even = hn::Add(even, x);
      }
    }
    hn::StoreU(hn::Add(even, odd), d, total);
  }

  template <Mode kMode>
  static HWY_INLINE Floats weight(const HeadScore<Score>& head, Floats largest, Floats score) {
    const Floats phi2 = head.phi2(score);
    if constexpr (kMode == Mode::kBounded) {
      return head.math.exp2_in_range(phi2);
    } else {
      const Floats power = kMode == Mode::kGeneral ? head.math.exp2(hn::Sub(phi2, largest))
                                                   : head.math.exp2_in_range(phi2);
      return hn::IfThenZeroElse(hn::Eq(score, set(kMinusInfinity)), power);
    }
  }

  bool sums_are_finite(Index rows) const {
    const FloatTag d;
    Floats sum = hn::Zero(d);
    for (Index c = 0; c < rows * v_width_; c += kLanes) {
      sum = hn::MulAdd(hn::LoadU(d, sums_ + c), hn::Zero(d), sum);
    }
    return hn::GetLane(hn::SumOfLanes(d, sum)) == 0.0f;
  }

  void finish(Index first, Index rows) {
    const FloatTag d;
    for (Index r = 0; r < rows; ++r) {
      const Index i = first + r;
      const Index at = args_.lse_offset(task_.batch, task_.head) + i;
      const float total = hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, totals_ + r * kLanes)));
      const bool sees_nothing = total == 0;
      if (outputs_.lse != nullptr) {
        outputs_.lse[at] = sees_nothing
                               ? kMinusInfinity
                               : static_cast<float>(kLn2 * largest_phi2_[r] + std::log(total));
      }
      if (outputs_.lse2_high != nullptr) {
        outputs_.lse2_high[at] = largest_phi2_[r];
        outputs_.lse2_low[at] = sees_nothing ? 0.0f : std::log2(total);
      }
      if (v_width_ == 0) continue;
      // Sums of a row that sees nothing may hold 0 · NaN of a key that other rows see.
      if (sees_nothing) std::fill_n(sums_ + r * v_width_, v_width_, 0.0f);
      float normaliser = total;
      if constexpr (kHasSink<Score>) normaliser += std::exp2(score_.sink2() - largest_phi2_[r]);
      write_row(sums_ + r * v_width_, args_.v_dim,
                sees_nothing ? 0.0f : dropout_.scale() / normaliser,
                outputs_.out.at(task_.batch, task_.head, i), outputs_.out.stride[3]);
    }
  }

  const AttentionArgs<T>& args_;
  const ForwardOutputs<T>& outputs_;
  const ForwardTask task_;
  const Index kv_;
  const Visibility visibility_;
  const Index keys_, base_;  ///< no query of the task sees other keys than [base_, keys_)
  const Index qk_depth_, qk_width_, v_width_;  ///< in lanes, widths in whole vectors
  const HeadScore<Score> score_;
  const bool copy_values_;
  Scratch scratch_;
  float *panels_, *value_copy_;  ///< from key base_ on
  float *query_, *scores_;
  float *sums_, *totals_;           ///< per row of the block: Σ p·v, and Σ p lane by lane
  float *largest_, *largest_phi2_;  ///< per row: largest score so far and its φ2
  std::vector<Index> keys_seen_;    ///< per row, for scores that count keys
  ScoreFilter filter_;
  const Dropout dropout_;
  const float* values_ = nullptr;  ///< from key base_ on
  float largest_key_square_ = 0.0f;
};

}  // namespace HWY_NAMESPACE
}  // namespace ssa
SSA_AFTER_NAMESPACE();

#endif  // per-target include guard
