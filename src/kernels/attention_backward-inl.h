// The fused backward pass of one kv head for a range of keys: its key and value gradients, and the
// range's share of the gradients of its group's queries.
//
// Blocks of keys outside, blocks of queries inside. For each pair of blocks, with s the scores
// again and lse from the forward pass,
//   p = 2^(φ2(s) − lse2),  lse2 = lse·log2(e),  dφ = p·(dP − D + dL),  dP = dO·Vᵀ,  D = rowsum(dO ∘
//   O), ds = dφ·∂φ/∂s,  dV += Pᵀ·dO,  dK += dSᵀ·(scale·Q),  dQ += dS·K,  dparam += Σ dφ·∂φ/∂param.
// Dropout's factor f is made again: dP = f∘(dO·Vᵀ),  dV += (f∘P)ᵀ·dO.
// P and dS of the pair lie in two buffers that the last three products read, dV and dK column by
// column, so that nothing is transposed. With BFloat16 these buffers hold pairs of rows.

#if defined(SSA_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SSA_ATTENTION_BACKWARD_INL_H_
#undef SSA_ATTENTION_BACKWARD_INL_H_
#else
#define SSA_ATTENTION_BACKWARD_INL_H_
#endif

#include "kernels/backward_lanes-inl.h"
#include "kernels/dropout-inl.h"
#include "kernels/pairs-inl.h"
#include "kernels/scratch.h"
#include "kernels/tasks.h"

SSA_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

template <class Score, class T>
class Backward {
 public:
  Backward(const BackwardProblem<T>& problem, const BackwardTask& task)
      : problem_(problem),
        args_(problem.args),
        task_(task),
        group_(args_.query_heads / args_.kv_heads),
        keys_(std::max<Index>(0, std::min(task.last, Band(args_, task.batch).keys) - task.first)),
        rows_(args_.query_length),
        qk_depth_(depth<T>(args_.qk_dim)),
        v_depth_(depth<T>(args_.v_dim)),
        qk_row_(round_up(qk_depth_, kLanes)),
        v_row_(round_up(v_depth_, kLanes)),
        qk_width_(round_up(args_.qk_dim, kLanes)),
        v_width_(round_up(args_.v_dim, kLanes)),
        scratch_(lay_out(nullptr)),
        keys_seen_(static_cast<std::size_t>(kCountsKeys<Score> ? rows_ : 0)),
        kept_(static_cast<std::size_t>(kHasSink<Score> ? rows_ : 0), 1.0f),
        sink_has_all_(kept_.size()) {
    lay_out(&scratch_);
  }

  void run() {
    pack_keys_and_values();
    std::fill_n(d_key_, keys_ * qk_width_, 0.0f);
    std::fill_n(d_value_, keys_ * v_width_, 0.0f);
    for (Index g = 0; g < group_; ++g) head(task_.kv * group_ + g, task_.sums[g]);
    write(problem_.gradients.key, d_key_, qk_width_, args_.qk_dim, tile_factor());
    write(problem_.gradients.value, d_value_, v_width_, args_.v_dim, 1.0f);
  }

 private:
  using Lanes = BackwardLanes<Score, T>;

  /// Queries of float are scaled when they are copied, others when they have become scores.
  float tile_factor() const { return kPairs<T> ? args_.scale : 1.0f; }

  static constexpr Index kQueryBlock = 96;
  static constexpr Index kKeyBlock = 128 / kPanel * kPanel;
  static constexpr Index kFewKeys = 16;
  /// A row of the buffers holds a block of keys, rounded up to strips of the transposed products.
  static constexpr Index kBuffer = round_up(round_up(kKeyBlock, kTileRows), kLanes);
  static_assert(kBuffer <= ScoreFilter::kMaxKeys);
  static_assert(kQueryBlock % 2 == 0 && kTileRows % 2 == 0);  // pairs of rows lie in one strip

  /// One query head's state while it is worked on.
  struct Head {
    Index head;
    Visibility visibility;
    HeadScore<Score> score;
    ScoreFilter filter;
    Dropout dropout;
    BackwardSums& sums;
  };

  /// Assigns the scratch pieces, or with null only measures them.
  Index lay_out(Scratch* scratch) {
    Index size = 0;
    const auto take = [&](float*& piece, Index floats) {
      if (scratch != nullptr) piece = scratch->take(floats);
      size += Scratch::size_of(floats);
    };
    take(key_panels_, panels_size<T>(keys_, args_.qk_dim));
    take(value_panels_, panels_size<T>(keys_, args_.v_dim));
    take(key_copy_, depth<T>(keys_) * qk_width_);
    take(d_key_, keys_ * qk_width_);
    take(d_value_, keys_ * v_width_);
    take(query_, rows_ * qk_row_);
    take(d_out_copy_, rows_ * v_row_);
    take(query_stack_, kPairs<T> ? depth<T>(rows_) * qk_width_ : 0);
    take(d_out_stack_, kPairs<T> ? depth<T>(rows_) * v_width_ : 0);
    take(d_query_, rows_ * qk_width_);
    take(lse2_, rows_);
    take(lse2_low_, rows_);
    take(delta_, round_up(rows_, kLanes));
    take(row_sums_, (1 + kMaxScoreParams) * rows_);
    take(d_out_panel_, 2 * v_depth_ * kPanel);
    take(weights_, depth<T>(kQueryBlock) * kBuffer);
    take(d_scores_, depth<T>(kQueryBlock) * kBuffer);
    take(strip_weights_, kPairs<T> ? kTileRows * kBuffer : 0);
    take(strip_d_scores_, kPairs<T> ? kTileRows * kBuffer : 0);
    take(filter_scratch_, ScoreFilter::kScratch);
    take(factors_, kBuffer);
    return size;
  }

  void pack_keys_and_values() {
    Matrix<T> key = matrix_of(args_.key, task_.batch, task_.kv);
    Matrix<T> value = matrix_of(args_.value, task_.batch, task_.kv);
    key.data = key.row(task_.first);
    value.data = value.row(task_.first);
    const bool filtered = args_.mask.data != nullptr || args_.bias.data != nullptr;
    pack_panels(key, keys_, args_.qk_dim, key_panels_);
    pack_panels(value, keys_, args_.v_dim, value_panels_);
    const bool copy = filtered || !key.is_packed(args_.qk_dim, qk_width_);
    if (copy) stack_rows(key, keys_, args_.qk_dim, key_copy_, qk_width_);
    key_rows_ = key_copy_;
    if constexpr (!kPairs<T>) key_rows_ = copy ? key_copy_ : key.data;
    const auto erase = [&](Index j) {
      if (j < 0 || j >= keys_) return;
      erase_key(key_panels_, j, qk_depth_);
      erase_key(value_panels_, j, v_depth_);
      if (copy) erase_row<T>(key_copy_, j, qk_width_);
    };
    const Index unseen = std::min(Band(args_, task_.batch).first_seen(), task_.last) - task_.first;
    for (Index j = 0; j < unseen; ++j) erase(j);
    if (filtered) {
      for (const Index hidden : poisoned_hidden_keys(args_, task_.batch, task_.kv)) {
        erase(hidden - task_.first);
      }
    }
    largest_key_square_ = largest_square<T>(key_panels_, keys_, qk_depth_);
  }

  void head(Index h, BackwardSums& sums) {
    Head head{h,
              Visibility(args_, task_.batch, h),
              HeadScore<Score>(args_, h),
              ScoreFilter(Visibility(args_, task_.batch, h), filter_scratch_),
              Dropout(args_, task_.batch, h),
              sums};
    const bool all_keys = sums.rows == nullptr;
    if (!all_keys) row_sums_ = sums.rows;
    if (all_keys) std::fill_n(row_sums_, (1 + kMaxScoreParams) * rows_, 0.0f);
    load_rows(head);
    if (sums.query != nullptr) d_query_ = sums.query;
    std::fill_n(d_query_, rows_ * qk_width_, 0.0f);
    const float q2 =
        largest_square_of_rows<T>(query_, rows_, qk_row_) * tile_factor() * tile_factor();
    // The bound is that of this task's keys; lse is of all keys, whose scores may be far larger.
    const bool lse_fits = std::all_of(lse2_, lse2_ + rows_, [](float x) { return x <= kSafeLse2; });
    switch (lse_fits ? choose_mode(head.visibility, q2, largest_key_square_, head.score)
                     : Mode::kGeneral) {
      case Mode::kBounded:
        key_blocks<Mode::kBounded>(head);
        break;
      case Mode::kBoundedFiltered:
        key_blocks<Mode::kBoundedFiltered>(head);
        break;
      case Mode::kGeneral:
        key_blocks<Mode::kGeneral>(head);
    }
    if (all_keys) {
      const Index at = args_.lse_offset(task_.batch, h);
      settle_params(row_sums_, rows_, problem_.lse + at,
                    problem_.d_lse == nullptr ? nullptr : problem_.d_lse + at, *sums.params);
    }
    const View4<T>& d_query = problem_.gradients.query;
    if (sums.query != nullptr || d_query.data == nullptr) return;
    for (Index i = 0; i < rows_; ++i) {
      write_row(d_query_ + i * qk_width_, args_.qk_dim, args_.scale, d_query.at(task_.batch, h, i),
                d_query.stride[3]);
    }
  }

  /// Scaled queries, dO, lse in base 2 and D − dL of all rows. A row that sees no key is read as
  /// zero, so that nothing it holds reaches the key gradients as 0 · NaN.
  void load_rows(const Head& head) {
    const Matrix<T> query = matrix_of(args_.query, task_.batch, head.head);
    const Matrix<T> d_out = matrix_of(problem_.d_out, task_.batch, head.head);
    const Index at = args_.lse_offset(task_.batch, head.head);
    const bool exact = problem_.exact[task_.batch * args_.query_heads + head.head] != 0;
    copy_rows(query, rows_, args_.qk_dim, args_.scale, query_, qk_row_);
    find_delta(d_out, matrix_of(problem_.out, task_.batch, head.head));
    bool copy = !d_out.is_packed(args_.v_dim, v_width_);
    for (Index i = 0; i < rows_; ++i) {
      if constexpr (kCountsKeys<Score>) keys_seen_[i] = head.visibility.count(i);
      const float lse = problem_.lse[at + i];
      if (lse == kMinusInfinity) {
        lse2_[i] = lse2_low_[i] = delta_[i] = 0.0f;
        if constexpr (kHasSink<Score>) kept_[i] = 1.0f, sink_has_all_[i] = 0;
        copy = true;
        continue;
      }
      // As a sum, whose first part is the largest φ2: of a score of 1e30 their sum keeps no digit
      // of the second.
      const double lse2 = kLog2E * lse;
      float high = static_cast<float>(lse2);
      double low = lse2 - high;
      if (exact) high = problem_.lse2_high[at + i], low = problem_.lse2_low[at + i];
      if constexpr (kHasSink<Score>) {
        // Weights are shares of the whole normaliser, the sink's among them.
        const double sink2 = head.score.sink2(), above = sink2 - high - low;
        const double more = std::log2(1 + std::exp2(-std::abs(above)));
        const double weight = std::exp2(std::min(above, 0.0) - more);
        if (task_.first == 0) add_sink(head, i, -weight * delta_[i], weight);
        // Beyond 2^−126 the keys' weights are below floats. What is left is the gradient of lse,
        // which is made of their shares among themselves: it is divided by kept_, which leaves it
        // 2^27 only above 2^−100.
        sink_has_all_[i] = above > (problem_.d_lse == nullptr ? 126 : 100);
        if (sink_has_all_[i]) {
          kept_[i] = 1.0f;
          delta_[i] *= 0.0f;  // NaN stays NaN
          copy = true;
        } else {
          kept_[i] = static_cast<float>(std::exp2(-std::max(above, 0.0) - more));
          const double first = above > 0 ? sink2 : high;
          const double second = (above > 0 ? 0 : low) + more;
          high = static_cast<float>(first + second);
          low = first - high + second;
        }
      }
      lse2_[i] = high;
      lse2_low_[i] = static_cast<float>(low);
      delta_[i] -= d_lse_of(head, i);
    }
    d_out_ = d_out_copy_;
    if constexpr (!kPairs<T>) d_out_ = copy ? d_out_copy_ : d_out.data;
    if (!copy) return;
    copy_rows(d_out, rows_, args_.v_dim, 1.0f, d_out_copy_, v_row_);
    if constexpr (kPairs<T>) {
      stack_rows(query, rows_, args_.qk_dim, query_stack_, qk_width_);
      stack_rows(d_out, rows_, args_.v_dim, d_out_stack_, v_width_);
    }
    for (Index i = 0; i < rows_; ++i) {
      const bool sees_nothing = problem_.lse[at + i] == kMinusInfinity;
      if (!sees_nothing && !(kHasSink<Score> && sink_has_all_[i])) continue;
      std::fill_n(d_out_copy_ + i * v_row_, v_row_, 0.0f);
      if constexpr (kPairs<T>) erase_row<T>(d_out_stack_, i, v_width_);
      if (!sees_nothing) continue;
      std::fill_n(query_ + i * qk_row_, qk_row_, 0.0f);
      if constexpr (kPairs<T>) erase_row<T>(query_stack_, i, qk_width_);
    }
  }

  /// Queries and dO as the right sides of products.
  const float* query_stack() const { return kPairs<T> ? query_stack_ : query_; }
  const float* d_out_stack() const { return kPairs<T> ? d_out_stack_ : d_out_; }

  /// D of every row, in the tile's order of operations, a vector of rows at a time: where one
  /// weight is 1 and O is that key's value, dP − D must be zero, as in a plain softmax, not nearly
  /// zero times a score of 1e6.
  void find_delta(const Matrix<T>& d_out, const Matrix<T>& out) {
    const FloatTag d;
    const Index panel = v_depth_ * kPanel;
    float *left = d_out_panel_, *right = d_out_panel_ + panel;
    for (Index i = 0; i < rows_; i += kPanel) {
      const Index count = std::min(kPanel, rows_ - i);
      const Matrix<T> d_out_rows{d_out.row(i), d_out.row_stride, d_out.stride};
      const Matrix<T> out_rows{out.row(i), out.row_stride, out.stride};
      pack_panels(d_out_rows, count, args_.v_dim, left);
      pack_panels(out_rows, count, args_.v_dim, right);
      for (Index r = 0; r < count; r += kLanes) {
        Floats sum = hn::Zero(d);
        for (Index c = 0; c < panel; c += kPanel) {
          sum = multiply_add<T>(hn::LoadU(d, left + c + r), hn::LoadU(d, right + c + r), sum);
        }
        hn::StoreU(sum, d, delta_ + i + r);
      }
    }
  }

  /// dL in units of the row's weights. lse is without the sink: of the weights, shares of the whole
  /// normaliser, it is the logarithm of the sum over keys only.
  float d_lse_of(const Head& head, Index i) const {
    if (problem_.d_lse == nullptr) return 0.0f;
    const Index at = args_.lse_offset(task_.batch, head.head) + i;
    if constexpr (kHasSink<Score>) return problem_.d_lse[at] / kept_[i];
    return problem_.d_lse[at];
  }

  /// The sink of row i is a key with value 0, and so has dφ = −p·D. It is in no task's keys: the
  /// one with the first key adds it.
  void add_sink(const Head& head, Index i, double d_phi, double weight) {
    if constexpr (!Score::kParams.empty()) {
      row_sums_[i] += static_cast<float>(d_phi);
      [&]<std::size_t... kParam>(std::index_sequence<kParam...>) {
        (
            [&] {
              const double derivative = hn::GetLane(
                  Score::template dsink_dparam<int(kParam)>(head.score.math, head.score.params));
              (*head.sums.params)[kParam] += d_phi * derivative;
              row_sums_[(1 + kParam) * rows_ + i] += static_cast<float>(weight * derivative);
            }(),
            ...);
      }
      (std::make_index_sequence<Score::kParams.size()>{});
    }
  }

  template <Mode kMode>
  void key_blocks(Head& head) {
    for (Index k0 = 0; k0 < keys_; k0 += kKeyBlock) {
      const Index keys = std::min(kKeyBlock, keys_ - k0);
      const Index first = head.visibility.first_row(task_.first + k0) / kDepth<T> * kDepth<T>;
      const Index limit = head.visibility.row_limit(task_.first + k0 + keys - 1);
      const Index last = std::min(rows_, round_up(limit, kDepth<T>));
      for (Index r0 = first; r0 < last; r0 += kQueryBlock) {
        block<kMode>(head, k0, keys, r0, std::min(kQueryBlock, last - r0));
      }
    }
  }

  /// Rows [r0, r0 + rows) × keys [k0, k0 + keys), counted from the task's first key.
  template <Mode kMode>
  void block(Head& head, Index k0, Index keys, Index r0, Index rows) {
    const FloatTag d;
    // Terms of the parameter gradients cancel to a thousandth of their sizes: they are added up in
    // levels (row, strip, block, then double), which at length 128 halves the error of one running
    // sum.
    Floats block_sums[kMaxScoreParams] = {hn::Zero(d), hn::Zero(d)};
    for (Index r = 0; r < rows; r += kTileRows) {
      const Index strip_rows = std::min<Index>(kTileRows, rows - r);
      const Index strip_limit = head.visibility.limit(r0 + r + strip_rows - 1) - task_.first - k0;
      const Index strip_start = head.visibility.start(r0 + r) - task_.first - k0;
      Floats strip_sums[kMaxScoreParams] = {hn::Zero(d), hn::Zero(d)};
      strip<kMode>(head, k0, std::max<Index>(0, strip_start) / kPanel * kPanel,
                   std::min(keys, strip_limit), r0, r, strip_rows, strip_sums);
      for (std::size_t k = 0; k < Score::kParams.size(); ++k) {
        block_sums[k] = hn::Add(block_sums[k], strip_sums[k]);
      }
    }
    for (std::size_t k = 0; k < Score::kParams.size(); ++k) {
      (*head.sums.params)[k] += hn::GetLane(hn::SumOfLanes(d, block_sums[k]));
    }
    for (Index s = 0; s < keys; s += kTileRows) {
      const Index strip_keys = std::min<Index>(kTileRows, keys - s);
      // Only the rows from the first that sees key s to the last that sees the strip's last key
      // have something for it; whole strips of them are filled.
      const Index first_row = head.visibility.first_row(task_.first + k0 + s) - r0;
      const Index skip = std::max<Index>(0, first_row) / kTileRows * kTileRows;
      const Index row_limit = head.visibility.row_limit(task_.first + k0 + s + strip_keys - 1) - r0;
      const Index past = std::min(rows, round_up(std::max<Index>(0, row_limit), kTileRows));
      if (skip >= past) continue;
      if (problem_.gradients.value.data != nullptr) {
        multiply<T, Storage::kTransposed>(
            strip_keys, v_width_, weights_ + skip / kDepth<T> * kBuffer + s, kBuffer,
            depth<T>(past - skip), d_out_stack() + (r0 + skip) / kDepth<T> * v_width_, v_width_,
            d_value_ + (k0 + s) * v_width_, v_width_);
      }
      if (problem_.gradients.key.data != nullptr) {
        multiply<T, Storage::kTransposed>(
            strip_keys, qk_width_, d_scores_ + skip / kDepth<T> * kBuffer + s, kBuffer,
            depth<T>(past - skip), query_stack() + (r0 + skip) / kDepth<T> * qk_width_, qk_width_,
            d_key_ + (k0 + s) * qk_width_, qk_width_);
      }
    }
  }

  /// Rows [r, r + rows) × keys [from, keys) of the block: P and dS into the buffers, dQ.
  template <Mode kMode>
  void strip(Head& head, Index k0, Index from, Index keys, Index r0, Index r, Index rows,
             Floats* param_sums) {
    if (keys <= from) return;
    const Index filled = round_up(round_up(keys, kTileRows), kLanes) - from;
    float* weights = (kPairs<T> ? strip_weights_ : weights_ + r * kBuffer) + from;
    float* d_scores = (kPairs<T> ? strip_d_scores_ : d_scores_ + r * kBuffer) + from;
    k0 += from;
    keys -= from;
    multiply_panels<T>(rows, keys, query_ + (r0 + r) * qk_row_, qk_row_, qk_depth_,
                       key_panels_ + k0 * qk_depth_, weights, kBuffer, tile_factor());
    multiply_panels<T>(rows, keys, d_out_ + (r0 + r) * v_row_, v_row_, v_depth_,
                       value_panels_ + k0 * v_depth_, d_scores, kBuffer, 1.0f);
    for (Index row = 0; row < rows; ++row) {
      const Index i = r0 + r + row;
      float* w = weights + row * kBuffer;
      float* ds = d_scores + row * kBuffer;
      const Index start = head.visibility.start(i), all = head.visibility.limit(i) - start;
      const Index limit = std::clamp<Index>(start + all - task_.first - k0, 0, keys);
      const Index begin = std::clamp<Index>(start - task_.first - k0, 0, limit);
      const Index padded = round_up(limit, kLanes);
      if constexpr (kMode != Mode::kBounded) {
        head.filter.apply(i, task_.first + k0, begin, limit, padded, w);
      }
      if (head.dropout.active()) {
        head.dropout.write_factors(i, task_.first + k0, padded, factors_);
        multiply_by(factors_, padded, ds);
      }
      // With one key, p = 1 and dP = D: only dL is left. Said here, as O = V holds but for
      // rounding.
      const bool has_all = limit - begin == all;
      if (!kHasSink<Score> && has_all && all == 1) ds[begin] = delta_[i] + d_lse_of(head, i);
      transform<kMode>(head, i, limit, has_all && all <= kFewKeys, w, ds, param_sums);
      if (head.dropout.active()) multiply_by(factors_, padded, w);
      std::fill(w + padded, w + filled, 0.0f);
      std::fill(ds + padded, ds + filled, 0.0f);
      add_bias_gradient(head, i, task_.first + k0, limit, ds);
    }
    if constexpr (kPairs<T>) narrow_strip(r, rows, from, filled);
    clear_front(r, rows, from);
    if (problem_.gradients.query.data != nullptr) {
      // Keys in front of the first that the strip sees may be those that no row sees.
      const Index start =
          std::clamp<Index>(head.visibility.start(r0 + r) - task_.first - k0, 0, keys);
      const Index lead = start / kDepth<T> * kDepth<T>;
      multiply<T, Storage::kRows>(rows, qk_width_, d_scores + lead / kDepth<T>, kBuffer,
                                  depth<T>(keys - lead),
                                  key_rows_ + (k0 + lead) / kDepth<T> * qk_width_, qk_width_,
                                  d_query_ + (r0 + r) * qk_width_, qk_width_);
    }
  }

  /// The strip's P and dS into the buffers as pairs of rows; dS of the strip as pairs of keys.
  void narrow_strip(Index r, Index rows, Index from, Index filled) requires kPairs<T> {
    float *weights = strip_weights_ + from, *d_scores = strip_d_scores_ + from;
    if (rows % 2 != 0) {
      std::fill_n(weights + rows * kBuffer, filled, 0.0f);
      std::fill_n(d_scores + rows * kBuffer, filled, 0.0f);
    }
    for (Index row = 0; row < rows; row += 2) {
      const Index at = row * kBuffer, to = (r + row) / 2 * kBuffer + from;
      stack_floats<T>(weights + at, weights + at + kBuffer, filled, weights_ + to);
      stack_floats<T>(d_scores + at, d_scores + at + kBuffer, filled, d_scores_ + to);
    }
    for (Index row = 0; row < rows; ++row) narrow_row<T>(d_scores + row * kBuffer, filled);
  }

  /// A strip of keys that begins in front of column `from` reaches over it.
  void clear_front(Index r, Index rows, Index from) {
    const Index cleared = std::min<Index>(from, kTileRows - 1);
    for (Index row = 0; row < depth<T>(rows) && cleared > 0; ++row) {
      const Index at = (r / kDepth<T> + row) * kBuffer + from - cleared;
      std::fill_n(weights_ + at, cleared, 0.0f);
      std::fill_n(d_scores_ + at, cleared, 0.0f);
    }
  }

  static void multiply_by(const float* factors, Index padded, float* values) {
    const FloatTag d;
    for (Index j = 0; j < padded; j += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, factors + j), hn::LoadU(d, values + j)), d, values + j);
    }
  }

  /// w: scores become weights; ds: dP becomes dS; both zero where hidden, up to a whole vector.
  template <Mode kMode>
  HWY_INLINE void transform(const Head& head, Index i, Index limit, bool few, float* w, float* ds,
                            Floats* param_sums) {
    const FloatTag d;
    HeadScore<Score> score_of = head.score;
    if constexpr (kCountsKeys<Score>) score_of.see(keys_seen_[i]);
    const Floats lse2 = set(lse2_[i]), lse2_low = set(lse2_low_[i]);
    float row_delta = delta_[i];
    if (few) {
      row_delta = delta_of_few<kMode>(head, score_of, i, limit, w, ds);
      // The sink has been given another D.
      if constexpr (kHasSink<Score>) add_sink(head, i, (kept_[i] - 1) * (row_delta - delta_[i]), 0);
    }
    const Floats delta = set(row_delta);
    typename Lanes::Sums sums;
    for (Index j = 0; j < limit; j += kLanes) {
      Floats score = hn::LoadU(d, w + j), gradient = hn::LoadU(d, ds + j);
      if constexpr (kMode == Mode::kBounded) {
        if (j + kLanes <= limit) {
          Lanes::template run<kMode, false>(score_of, FloatMask(), lse2, lse2_low, delta, score,
                                            gradient, sums);
        } else {
          const FloatMask outside = hn::Not(hn::FirstN(d, static_cast<std::size_t>(limit - j)));
          Lanes::template run<kMode, true>(score_of, outside, lse2, lse2_low, delta, score,
                                           gradient, sums);
        }
      } else {
        const FloatMask hidden = hn::Eq(score, set(kMinusInfinity));
        Lanes::template run<kMode, true>(score_of, hidden, lse2, lse2_low, delta, score, gradient,
                                         sums);
      }
      hn::StoreU(score, d, w + j);
      hn::StoreU(gradient, d, ds + j);
    }
    for (std::size_t k = 0; k < Score::kParams.size(); ++k) {
      param_sums[k] = hn::Add(param_sums[k], sums.param[k]);
    }
    if constexpr (!Score::kParams.empty()) {
      row_sums_[i] += hn::GetLane(hn::SumOfLanes(d, sums.d_phi));
      for (std::size_t k = 0; k < Score::kParams.size(); ++k) {
        row_sums_[(1 + k) * rows_ + i] += hn::GetLane(hn::SumOfLanes(d, sums.weighted[k]));
      }
    }
  }

  /// D − dL of a row whose few visible keys all lie here, as Σ p·dP / Σ p of these very numbers.
  /// One weight is often near 1 there: dP − D cancels, and D = dO·O would leave the rounding of its
  /// dot product, six times the error of a plain softmax's dQ at dimension 96.
  template <Mode kMode>
  float delta_of_few(const Head& head, const HeadScore<Score>& score_of, Index i, Index limit,
                     const float* w, const float* ds) const {
    const FloatTag d;
    Floats weighted = hn::Zero(d), total = hn::Zero(d);
    for (Index j = 0; j < limit; j += kLanes) {
      Floats weight = hn::LoadU(d, w + j), unused = hn::Zero(d);
      const Floats d_weight = hn::LoadU(d, ds + j);
      const FloatMask hidden = kMode == Mode::kBounded
                                   ? hn::Not(hn::FirstN(d, static_cast<std::size_t>(limit - j)))
                                   : hn::Eq(weight, set(kMinusInfinity));
      typename Lanes::Sums sums;
      Lanes::template run<kMode, true>(score_of, hidden, set(lse2_[i]), set(lse2_low_[i]),
                                       hn::Zero(d), weight, unused, sums);
      weighted = hn::Add(weighted, hn::IfThenZeroElse(hidden, hn::Mul(weight, d_weight)));
      total = hn::Add(total, weight);
    }
    // The total is what the row's keys keep of the normaliser, 1 without a sink, but for rounding.
    const float sum = hn::GetLane(hn::SumOfLanes(d, total));
    float delta = hn::GetLane(hn::SumOfLanes(d, weighted)) / sum;
    if constexpr (kHasSink<Score>) delta = sum == 0 ? 0.0f : delta * kept_[i];  // all below floats
    return delta - d_lse_of(head, i);
  }

  /// ds[0, keys) belongs to query i and keys from `first` on.
  void add_bias_gradient(Head& head, Index i, Index first, Index keys, const float* ds) {
    const FloatTag d;
    if (head.sums.bias != nullptr) {
      double* to = head.sums.bias + i * head.sums.bias_row_stride;
      const Index stride = head.sums.bias_stride;
      for (Index j = 0; j < keys; ++j) to[(first + j) * stride] += ds[j];
      return;
    }
    const View4<float>& bias = problem_.gradients.bias;
    if (bias.data == nullptr) return;
    float* to = bias.at(task_.batch, head.head, i, first);
    const Index stride = bias.stride[3];
    Index j = 0;
    if (stride == 1) {
      for (; j + kLanes <= keys; j += kLanes) {
        hn::StoreU(hn::Add(hn::LoadU(d, to + j), hn::LoadU(d, ds + j)), d, to + j);
      }
    }
    for (; j < keys; ++j) to[j * stride] += ds[j];
  }

  /// The task's rows of a key or value gradient; zero for keys that this sequence does not have.
  void write(const View4<T>& gradient, const float* rows, Index width, Index columns,
             float factor) const {
    if (gradient.data == nullptr) return;
    for (Index j = 0; j < task_.last - task_.first; ++j) {
      T* to = gradient.at(task_.batch, task_.kv, task_.first + j);
      if (j < keys_) {
        write_row(rows + j * width, columns, factor, to, gradient.stride[3]);
      } else {
        for (Index c = 0; c < columns; ++c) to[c * gradient.stride[3]] = T(0.0f);
      }
    }
  }

  const BackwardProblem<T>& problem_;
  const AttentionArgs<T>& args_;
  const BackwardTask task_;
  const Index group_;
  const Index keys_;  ///< of the task's range, those that this sequence has
  const Index rows_;
  const Index qk_depth_, v_depth_;  ///< lanes of a contraction over a head's dimension
  const Index qk_row_, v_row_;      ///< the same in whole vectors: rows of left sides
  const Index qk_width_, v_width_;  ///< head dimensions in whole vectors: rows of right sides
  float *key_panels_ = nullptr, *value_panels_ = nullptr, *key_copy_ = nullptr;
  float *d_key_ = nullptr, *d_value_ = nullptr;                          ///< sums over the group
  float *query_ = nullptr, *d_out_copy_ = nullptr, *d_query_ = nullptr;  ///< of the current head
  float *lse2_ = nullptr, *lse2_low_ = nullptr, *delta_ = nullptr;       ///< lse·log2(e), D − dL
  float *weights_ = nullptr, *d_scores_ = nullptr;                       ///< P and dS of a block
  float *query_stack_ = nullptr, *d_out_stack_ = nullptr;       ///< with pairs: right sides
  float *strip_weights_ = nullptr, *strip_d_scores_ = nullptr;  ///< with pairs: before they narrow
  float* row_sums_ = nullptr;                                   ///< BackwardSums::rows
  float *d_out_panel_ = nullptr, *filter_scratch_ = nullptr;
  float* factors_ = nullptr;  ///< dropout's, of a row of a block
  Scratch scratch_;
  std::vector<Index> keys_seen_;  ///< per row of the head, for scores that count keys
  std::vector<float> kept_;       ///< per row, with a sink: the keys' share of the whole normaliser
  std::vector<char> sink_has_all_;  ///< per row, with a sink: kept is below floats
  const float *key_rows_ = nullptr, *d_out_ = nullptr;
  float largest_key_square_ = 0.0f;
};

}  // namespace HWY_NAMESPACE
}  // namespace ssa
SSA_AFTER_NAMESPACE();

#endif  // per-target include guard
