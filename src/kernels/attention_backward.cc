// The backward pass: splits it into tasks whose sums do not meet, dispatches each to the best
// instruction set, and adds up what several tasks contributed to, in a fixed order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_backward.cc"
// clang-format off: foreach_target.h comes first
#include <hwy/foreach_target.h>
// clang-format on
#include "kernels/attention_backward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

template <class T>
void backward_task(const BackwardProblem<T>& problem, const BackwardTask& task) {
  for_each_score(ScoreList{}, [&](auto score) {
    if (decltype(score)::kName == problem.args.score) {
      Backward<decltype(score), T>(problem, task).run();
    }
  });
}

void float_backward(const BackwardProblem<float>& problem, const BackwardTask& task) {
  backward_task(problem, task);
}

/// Only where has_bfloat16_products().
void bfloat16_backward([[maybe_unused]] const BackwardProblem<BFloat16>& problem,
                       [[maybe_unused]] const BackwardTask& task) {
#if HWY_TARGET <= HWY_AVX3
  backward_task(problem, task);
#endif
}

/// Floats in a row of a task's share of the query gradient.
Index query_gradient_width(Index qk_dim) { return round_up(qk_dim, kLanes); }

/// shares (rows × width floats) += more, of the same size.
void add_query_share(float* shares, const float* more, Index size) {
  const FloatTag d;
  for (Index c = 0; c < size; c += kLanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, shares + c), hn::LoadU(d, more + c)), d, shares + c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/attention_decode.h"
#include "kernels/check_args.h"
#include "kernels/target.h"
#include "kernels/widened.h"

namespace ssa {

HWY_EXPORT(float_backward);
HWY_EXPORT(bfloat16_backward);
HWY_EXPORT(query_gradient_width);
HWY_EXPORT(add_query_share);

using Index = std::int64_t;

void settle_params(const float* rows, Index count, const float* lse, const float* d_lse,
                   std::array<double, kMaxScoreParams>& params) {
  for (Index i = 0; i < count; ++i) {
    if (rows[i] == 0 || std::isinf(lse[i])) continue;  // nothing recorded, or no key
    const double off = rows[i] - (d_lse == nullptr ? 0.0 : static_cast<double>(d_lse[i]));
    for (std::size_t k = 0; k < kMaxScoreParams; ++k) params[k] -= off * rows[(1 + k) * count + i];
  }
}

namespace {

void dispatch(const BackwardProblem<float>& problem, const BackwardTask& task) {
  HWY_DYNAMIC_DISPATCH(float_backward)(problem, task);
}
void dispatch(const BackwardProblem<BFloat16>& problem, const BackwardTask& task) {
  HWY_DYNAMIC_DISPATCH(bfloat16_backward)(problem, task);
}

/// Bounds of `count` key ranges with about equal work: under causality the first keys have most
/// rows.
std::vector<Index> split_keys(const AttentionProblem<float>& args, Index count) {
  constexpr Index kStep = 64;
  const auto work = [&](Index key) {
    const Index unseen = args.causal ? key - args.key_length + args.query_length : 0;
    return static_cast<double>(args.query_length - std::max<Index>(0, unseen));
  };
  double total = 0;
  for (Index j = 0; j < args.key_length; j += kStep) total += work(j);
  std::vector<Index> bounds{0};
  double sum = 0;
  for (Index j = 0; j < args.key_length; j += kStep) {
    if (sum >= total * static_cast<double>(bounds.size()) / static_cast<double>(count)) {
      bounds.push_back(j);
    }
    sum += work(j);
  }
  bounds.push_back(args.key_length);
  return bounds;
}

/// The gradients that more than one task adds to, and how the work is cut so that none races.
template <class T>
class BackwardPlan {
 public:
  BackwardPlan(const BackwardProblem<T>& problem, const Parallel& parallel)
      : problem_(problem), args_(problem.args), parallel_(parallel) {
    const View4<float>& bias = problem.gradients.bias;
    const auto summed = [&](int dimension, Index size) {
      return bias.data != nullptr && bias.stride[dimension] == 0 && size > 1;
    };
    bias_reduced_ = summed(2, args_.query_length) || summed(3, args_.key_length);
    // A bias gradient with a value per (query, key), shared by batch rows or heads, is added to in
    // place: those that share it take turns.
    const bool in_place = bias.data != nullptr && !bias_reduced_;
    batch_turns_ = in_place && summed(0, args_.batch) ? args_.batch : 1;
    head_turns_ = in_place && summed(1, args_.kv_heads) ? args_.kv_heads : 1;
    heads_per_turn_ = args_.batch * args_.kv_heads / (batch_turns_ * head_turns_);

    // Whole heads when there are plenty or they fill the threads evenly; each split costs one more
    // share of the query gradient.
    Index splits = 1;
    if (heads_per_turn_ < 4 * parallel.threads && heads_per_turn_ % parallel.threads != 0) {
      splits = (2 * parallel.threads + heads_per_turn_ - 1) / heads_per_turn_;
    }
    bounds_ = split_keys(args_, splits);
    splits_ = static_cast<Index>(bounds_.size()) - 1;

    const Index all = args_.batch * args_.query_heads * splits_;
    sums_.resize(static_cast<std::size_t>(all));
    params_.resize(static_cast<std::size_t>(all));
    for (Index k = 0; k < all; ++k) sums_[k].params = &params_[k];
    if (splits_ > 1 && !find_score(args_.score).params.empty()) {
      row_sums_.resize(static_cast<std::size_t>(all * row_sums_size()));
      for (Index k = 0; k < all; ++k) sums_[k].rows = row_sums_.data() + k * row_sums_size();
    }
    if (bias_reduced_) share_bias();
  }

  void run() {
    zero_bias();
    for (Index b = 0; b < batch_turns_; ++b) {
      for (Index h = 0; h < head_turns_; ++h) turn(b, h);
    }
    if (!row_sums_.empty()) add_row_sums();
    write_params();
    if (bias_reduced_) write_bias();
  }

 private:
  Index group() const { return args_.query_heads / args_.kv_heads; }
  /// Index of (batch, query head, split) in sums_, so that a head's splits lie together.
  Index sums_index(Index b, Index h, Index split) const {
    return (b * args_.query_heads + h) * splits_ + split;
  }
  bool shares_query() const { return splits_ > 1 && problem_.gradients.query.data != nullptr; }

  void share_bias() {
    const auto& stride = problem_.gradients.bias.stride;
    bias_rows_ = stride[2] == 0 ? 1 : args_.query_length;
    bias_columns_ = stride[3] == 0 ? 1 : args_.key_length;
    const Index size = bias_rows_ * bias_columns_;
    bias_sums_.assign(sums_.size() * static_cast<std::size_t>(size), 0.0);
    for (std::size_t k = 0; k < sums_.size(); ++k) {
      sums_[k].bias = bias_sums_.data() + static_cast<Index>(k) * size;
      sums_[k].bias_row_stride = bias_rows_ == 1 ? 0 : 1;
      sums_[k].bias_stride = bias_columns_ == 1 ? 0 : 1;
    }
  }

  /// The tasks of one turn, then the sum of their shares of the query gradient.
  void turn(Index batch_turn, Index head_turn) {
    const Index kv_heads = args_.kv_heads / head_turns_;
    const Index width = HWY_DYNAMIC_DISPATCH(query_gradient_width)(args_.qk_dim);
    const Index share = args_.query_length * width;
    if (shares_query()) {
      query_shares_.resize(static_cast<std::size_t>(heads_per_turn_ * group() * splits_ * share));
    }
    parallel_.run(heads_per_turn_ * splits_, [&](Index t) {
      const Index split = t / heads_per_turn_, local = t % heads_per_turn_;
      const Index b = batch_turn + local / kv_heads, kv = head_turn + local % kv_heads;
      std::vector<BackwardSums> sums(static_cast<std::size_t>(group()));
      for (Index g = 0; g < group(); ++g) {
        sums[g] = sums_[sums_index(b, kv * group() + g, split)];
        if (shares_query()) {
          sums[g].query = query_shares_.data() + ((local * group() + g) * splits_ + split) * share;
        }
      }
      const BackwardTask task{b, kv, bounds_[split], bounds_[split + 1], sums.data()};
      dispatch(problem_, task);
    });
    if (!shares_query()) return;
    parallel_.run(heads_per_turn_ * group(), [&](Index t) {
      const Index local = t / group();
      const Index b = batch_turn + local / kv_heads;
      const Index head = (head_turn + local % kv_heads) * group() + t % group();
      float* sum = query_shares_.data() + t * splits_ * share;
      for (Index s = 1; s < splits_; ++s) {
        HWY_DYNAMIC_DISPATCH(add_query_share)(sum, sum + s * share, share);
      }
      const View4<T>& gradient = problem_.gradients.query;
      for (Index i = 0; i < args_.query_length; ++i) {
        for (Index c = 0; c < args_.qk_dim; ++c) {
          *gradient.at(b, head, i, c) = T(args_.scale * sum[i * width + c]);
        }
      }
    });
  }

  Index row_sums_size() const {
    return (1 + static_cast<Index>(kMaxScoreParams)) * args_.query_length;
  }

  /// settle_params for heads whose keys several tasks had: their row sums first become those of all
  /// keys.
  void add_row_sums() {
    const Index size = row_sums_size();
    for (Index h = 0; h < args_.batch * args_.query_heads; ++h) {
      float* total = row_sums_.data() + h * splits_ * size;
      for (Index s = 1; s < splits_; ++s) {
        for (Index e = 0; e < size; ++e) total[e] += total[s * size + e];
      }
      const Index at = h * args_.query_length;
      settle_params(total, args_.query_length, problem_.lse + at,
                    problem_.d_lse == nullptr ? nullptr : problem_.d_lse + at,
                    params_[h * splits_]);
    }
  }

  void write_params() const {
    for (std::size_t k = 0; k < kMaxScoreParams; ++k) {
      const HeadValues<float>& values = problem_.gradients.params[k];
      if (values.data == nullptr) continue;
      double shared = 0;
      for (Index h = 0; h < args_.query_heads; ++h) {
        double sum = 0;
        for (Index b = 0; b < args_.batch; ++b) {
          for (Index s = 0; s < splits_; ++s) sum += params_[sums_index(b, h, s)][k];
        }
        shared += sum;
        values.data[h * values.stride] = static_cast<float>(values.stride == 0 ? shared : sum);
      }
    }
  }

  void zero_bias() const {
    const View4<float>& bias = problem_.gradients.bias;
    if (bias.data == nullptr) return;
    const auto distinct = [&](int dimension, Index size) {
      return bias.stride[dimension] == 0 ? std::min<Index>(1, size) : size;
    };
    const Index heads = distinct(1, args_.query_heads);
    parallel_.run(distinct(0, args_.batch) * heads, [&](Index t) {
      for (Index i = 0; i < distinct(2, args_.query_length); ++i) {
        for (Index j = 0; j < distinct(3, args_.key_length); ++j) {
          *bias.at(t / heads, t % heads, i, j) = 0.0f;
        }
      }
    });
  }

  /// The bias gradient from the sums of all tasks: element by element, in order, in double.
  void write_bias() const {
    const View4<float>& bias = problem_.gradients.bias;
    const Index size = bias_rows_ * bias_columns_;
    const Index batches = bias.stride[0] == 0 ? 1 : args_.batch;
    const Index heads = bias.stride[1] == 0 ? 1 : args_.query_heads;
    for (Index e = 0; e < size; ++e) {
      for (Index b0 = 0; b0 < batches; ++b0) {
        for (Index h0 = 0; h0 < heads; ++h0) {
          double sum = 0;
          for (Index b = b0; b < (batches == 1 ? args_.batch : b0 + 1); ++b) {
            for (Index h = h0; h < (heads == 1 ? args_.query_heads : h0 + 1); ++h) {
              for (Index s = 0; s < splits_; ++s) sum += bias_sums_[sums_index(b, h, s) * size + e];
            }
          }
          *bias.at(b0, h0, e / bias_columns_, e % bias_columns_) = static_cast<float>(sum);
        }
      }
    }
  }

  const BackwardProblem<T>& problem_;
  const AttentionArgs<T>& args_;
  const Parallel& parallel_;
  bool bias_reduced_ = false;
  Index batch_turns_ = 1, head_turns_ = 1, heads_per_turn_ = 0, splits_ = 1;
  std::vector<Index> bounds_;  ///< split s has keys [bounds_[s], bounds_[s + 1])
  std::vector<BackwardSums> sums_;
  std::vector<std::array<double, kMaxScoreParams>> params_;
  std::vector<float> row_sums_;
  Index bias_rows_ = 0, bias_columns_ = 0;
  std::vector<double> bias_sums_;
  std::vector<float> query_shares_;
};

/// The general forward pass once more, where attention_forward took the decoding kernel. That adds
/// in another order, and D = dO·O of an out that does not go with the weights to the last bit
/// leaves their difference, |s|·ε, in gradients that cancel: at |s| = 100, 20 times the error of
/// plain loops.
template <class T>
class OwnForward {
 public:
  OwnForward(const AttentionArgs<T>& args, const Parallel& parallel) {
    if (!is_decoding(args)) return;
    const Index rows = args.batch * args.query_heads * args.query_length;
    stride_ = {args.query_heads * args.query_length * args.v_dim, args.query_length * args.v_dim,
               args.v_dim, 1};
    out_.resize(static_cast<std::size_t>(std::max<Index>(1, rows * args.v_dim)));
    lse_.resize(static_cast<std::size_t>(rows));
    general_forward(args, {out_.data(), stride_}, lse_.data(), parallel);
  }

  bool needed() const { return !out_.empty(); }
  View4<const T> out() const { return {out_.data(), stride_}; }
  const float* lse() const { return lse_.data(); }

 private:
  std::array<Index, 4> stride_{};
  std::vector<T> out_;
  std::vector<float> lse_;
};

template <class T>
void run_backward(const AttentionArgs<T>& args, const View4<const T>& out, const float* lse,
                  const View4<const T>& d_out, const float* d_lse,
                  const AttentionGradients<T>& gradients, const Parallel& parallel) {
  if (args.query_heads == 0) return;
  const OwnForward<T> own(args, parallel);
  const float* used_lse = own.needed() ? own.lse() : lse;
  const Lse2 lse2 = exact_lse2(args, used_lse, parallel);
  const BackwardProblem<T> problem{
      args, own.needed() ? own.out() : out, used_lse, d_out, d_lse, lse2, gradients};
  BackwardPlan<T>(problem, parallel).run();
}

}  // namespace

void attention_backward(const AttentionArgs<float>& args, const View4<const float>& out,
                        const float* lse, const View4<const float>& d_out, const float* d_lse,
                        const AttentionGradients<float>& gradients, const Parallel& parallel) {
  check_args(args);
  choose_target();
  run_backward(args, out, lse, d_out, d_lse, gradients, parallel);
}

void attention_backward(const AttentionArgs<BFloat16>& args, const View4<const BFloat16>& out,
                        const float* lse, const View4<const BFloat16>& d_out, const float* d_lse,
                        const AttentionGradients<BFloat16>& gradients, const Parallel& parallel) {
  check_args(args);
  if (!has_bfloat16_products()) {
    return widened_backward(args, out, lse, d_out, d_lse, gradients, parallel);
  }
  run_backward(args, out, lse, d_out, d_lse, gradients, parallel);
}

}  // namespace ssa
#endif  // HWY_ONCE
