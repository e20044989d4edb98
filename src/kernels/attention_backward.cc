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
      run_backward_task<decltype(score)>(problem, task);
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
#include <deque>
#include <numeric>

#include "kernels/attention_decode.h"
#include "kernels/band.h"
#include "kernels/check_args.h"
#include "kernels/packed.h"
#include "kernels/target.h"
#include "kernels/widened.h"

namespace ssa {

HWY_EXPORT(float_backward);
HWY_EXPORT(bfloat16_backward);
HWY_EXPORT(query_gradient_width);
HWY_EXPORT(add_query_share);

using Index = std::int64_t;

void settle_params(const float* rows, Index count, const float* lse, const float* d_lse,
                   std::span<double> params) {
  for (Index i = 0; i < count; ++i) {
    if (rows[i] == 0 || std::isinf(lse[i])) continue;  // nothing recorded, or no key
    const double off = rows[i] - (d_lse == nullptr ? 0.0 : static_cast<double>(d_lse[i]));
    for (std::size_t k = 0; k < params.size(); ++k) params[k] -= off * rows[(1 + k) * count + i];
  }
}

namespace {

void dispatch(const BackwardProblem<float>& problem, const BackwardTask& task) {
  HWY_DYNAMIC_DISPATCH(float_backward)(problem, task);
}
void dispatch(const BackwardProblem<BFloat16>& problem, const BackwardTask& task) {
  HWY_DYNAMIC_DISPATCH(bfloat16_backward)(problem, task);
}

/// Bounds of `count` key ranges with about equal work: keys differ in how many rows see them.
std::vector<Index> split_keys(const AttentionProblem<float>& args, Index count) {
  constexpr Index kStep = 64;
  AttentionProblem<float> any = args;
  any.key_lengths = nullptr;
  const Band band(any, 0);
  const auto work = [&](Index key) {
    const Index last = std::min(key + kStep, args.key_length) - 1;
    return static_cast<double>(std::max<Index>(0, band.row_limit(last) - band.first_row(key)));
  };
  double total = 0;
  for (Index j = 0; j < args.key_length; j += kStep) total += work(j);
  std::vector<Index> bounds{0};
  double sum = 0;
  for (Index j = 0; j < args.key_length; j += kStep) {
    if (sum > 0 && sum >= total * static_cast<double>(bounds.size()) / static_cast<double>(count)) {
      bounds.push_back(j);
    }
    sum += work(j);
  }
  bounds.push_back(args.key_length);
  return bounds;
}

/// The gradients of one part that more than one task adds to, and how the work is cut so that none
/// races. The tasks of a turn may run at the same time, then its sums; the turns follow each other.
template <class T>
class BackwardPlan {
 public:
  /// `threads`: those that the part may take up.
  BackwardPlan(const BackwardProblem<T>& problem, int threads)
      : problem_(problem), args_(problem_.args) {
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
    if (heads_per_turn_ < 4 * threads && heads_per_turn_ % threads != 0) {
      splits = (2 * threads + heads_per_turn_ - 1) / heads_per_turn_;
    }
    bounds_ = split_keys(args_, splits);
    splits_ = static_cast<Index>(bounds_.size()) - 1;

    const Index all = args_.batch * args_.query_heads * splits_;
    sums_.resize(static_cast<std::size_t>(all));
    params_.resize(static_cast<std::size_t>(all));
    for (Index k = 0; k < all; ++k) sums_[k].params = &params_[k];
    if (splits_ > 1 && score_params_ > 0) {
      row_sums_.resize(static_cast<std::size_t>(all * row_sums_size()));
      for (Index k = 0; k < all; ++k) sums_[k].rows = row_sums_.data() + k * row_sums_size();
    }
    if (bias_reduced_) share_bias();
  }

  Index turns() const { return batch_turns_ * head_turns_; }

  void begin_turn(Index turn) {
    batch_turn_ = turn / head_turns_;
    head_turn_ = turn % head_turns_;
    if (!shares_query()) return;
    query_shares_.resize(
        static_cast<std::size_t>(heads_per_turn_ * group() * splits_ * query_share()));
  }

  Index tasks() const { return heads_per_turn_ * splits_; }

  void task(Index t) {
    const Index split = t / heads_per_turn_, local = t % heads_per_turn_;
    const Index kv_heads = args_.kv_heads / head_turns_;
    const Index b = batch_turn_ + local / kv_heads, kv = head_turn_ + local % kv_heads;
    std::vector<BackwardSums> sums(static_cast<std::size_t>(group()));
    for (Index g = 0; g < group(); ++g) {
      sums[g] = sums_[sums_index(b, kv * group() + g, split)];
      if (shares_query()) {
        sums[g].query =
            query_shares_.data() + ((local * group() + g) * splits_ + split) * query_share();
      }
    }
    dispatch(problem_, BackwardTask{b, kv, bounds_[split], bounds_[split + 1], sums.data()});
  }

  /// Sums of the tasks' shares of the query gradient.
  Index sums() const { return shares_query() ? heads_per_turn_ * group() : 0; }

  void sum(Index t) {
    const Index local = t / group(), kv_heads = args_.kv_heads / head_turns_;
    const Index b = batch_turn_ + local / kv_heads;
    const Index head = (head_turn_ + local % kv_heads) * group() + t % group();
    const Index share = query_share(), width = query_width();
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
  }

  void finish() {
    if (!row_sums_.empty()) add_row_sums();
    if (bias_reduced_) write_bias();
  }

  /// A head's parameter gradient.
  double param(Index h, std::size_t k) const {
    double sum = 0;
    for (Index b = 0; b < args_.batch; ++b) {
      for (Index s = 0; s < splits_; ++s) sum += params_[sums_index(b, h, s)][k];
    }
    return sum;
  }

 private:
  Index group() const { return args_.query_heads / args_.kv_heads; }
  /// Index of (batch, query head, split) in sums_, so that a head's splits lie together.
  Index sums_index(Index b, Index h, Index split) const {
    return (b * args_.query_heads + h) * splits_ + split;
  }
  bool shares_query() const { return splits_ > 1 && problem_.gradients.query.data != nullptr; }
  Index query_width() const { return HWY_DYNAMIC_DISPATCH(query_gradient_width)(args_.qk_dim); }
  Index query_share() const { return args_.query_length * query_width(); }

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

  Index row_sums_size() const {
    return (1 + static_cast<Index>(score_params_)) * args_.query_length;
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
      const Index at = args_.lse_offset(h / args_.query_heads, h % args_.query_heads);
      settle_params(total, args_.query_length, problem_.lse + at,
                    problem_.d_lse == nullptr ? nullptr : problem_.d_lse + at,
                    std::span(params_[h * splits_]).first(score_params_));
    }
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

  const BackwardProblem<T> problem_;
  const AttentionArgs<T>& args_;  ///< the problem's
  const std::size_t score_params_ = find_score(args_.score).params.size();
  bool bias_reduced_ = false;
  Index batch_turns_ = 1, head_turns_ = 1, heads_per_turn_ = 0, splits_ = 1;
  Index batch_turn_ = 0, head_turn_ = 0;  ///< that at work
  std::vector<Index> bounds_;             ///< split s has keys [bounds_[s], bounds_[s + 1])
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

void zero_bias(const AttentionProblem<float>& args, const View4<float>& bias,
               const Parallel& parallel) {
  if (bias.data == nullptr) return;
  const auto distinct = [&](int dimension, Index size) {
    return bias.stride[dimension] == 0 ? std::min<Index>(1, size) : size;
  };
  const Index heads = distinct(1, args.query_heads);
  parallel.run(distinct(0, args.batch) * heads, [&](Index t) {
    for (Index i = 0; i < distinct(2, args.query_length); ++i) {
      for (Index j = 0; j < distinct(3, args.key_length); ++j) {
        *bias.at(t / heads, t % heads, i, j) = 0.0f;
      }
    }
  });
}

/// Calls f(plan, i) for i < count(plan) of every plan.
template <class T, class Count, class F>
void run_all(std::deque<BackwardPlan<T>>& plans, const Parallel& parallel, Count&& count, F&& f) {
  std::vector<std::pair<BackwardPlan<T>*, Index>> tasks;
  for (BackwardPlan<T>& plan : plans) {
    for (Index i = 0; i < count(plan); ++i) tasks.emplace_back(&plan, i);
  }
  parallel.run(static_cast<Index>(tasks.size()),
               [&](Index t) { f(*tasks[t].first, tasks[t].second); });
}

/// In the order of the parts, whatever the order of the work.
template <class T>
void write_params(const std::vector<const BackwardPlan<T>*>& plans, Index query_heads,
                  const AttentionGradients<T>& gradients) {
  for (std::size_t k = 0; k < kMaxScoreParams; ++k) {
    const HeadValues<float>& values = gradients.params[k];
    if (values.data == nullptr) continue;
    double shared = 0;
    for (Index h = 0; h < query_heads; ++h) {
      double sum = 0;
      for (const BackwardPlan<T>* plan : plans) sum += plan->param(h, k);
      shared += sum;
      values.data[h * values.stride] = static_cast<float>(values.stride == 0 ? shared : sum);
    }
  }
}

template <class T>
void run_backward(const AttentionArgs<T>& args, const View4<const T>& out, const float* lse,
                  const View4<const T>& d_out, const float* d_lse,
                  const AttentionGradients<T>& gradients, const Parallel& parallel) {
  if (args.query_heads == 0) return;
  const OwnForward<T> own(args, parallel);
  const View4<const T> used_out = own.needed() ? own.out() : out;
  const float* used_lse = own.needed() ? own.lse() : lse;
  const std::vector<Part<T>> parts = parts_of(args);
  const Lse2 lse2 =
      exact_lse2(parts, args.batch * args.query_heads * args.query_length, used_lse, parallel);
  // The longest sequences first, so that no thread is left with one at the end.
  const auto work = [&](std::size_t p) {
    return static_cast<double>(parts[p].args.query_length) *
           static_cast<double>(parts[p].args.key_length);
  };
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return work(a) > work(b); });
  double all_work = 0;
  for (const std::size_t p : order) all_work += work(p);
  std::deque<BackwardPlan<T>> plans;
  std::vector<const BackwardPlan<T>*> by_part(parts.size());
  for (const std::size_t p : order) {
    const Part<T>& part = parts[p];
    const Index heads = static_cast<Index>(p) * args.query_heads;  // of packed parts, batch is 1
    const double share = all_work > 0 ? work(p) / all_work : 1;
    by_part[p] = &plans.emplace_back(
        BackwardProblem<T>{part.args, part.queries(used_out), part.rows(used_lse),
                           part.queries(d_out), part.rows(d_lse), part.rows(lse2.high.data()),
                           part.rows(lse2.low.data()), lse2.exact.data() + heads,
                           part.gradients(gradients)},
        std::max(1, static_cast<int>(std::ceil(share * parallel.threads))));
  }
  zero_bias(args, gradients.bias, parallel);
  // Without a bias, and so with several parts, there is one turn.
  for (Index turn = 0; turn < (plans.empty() ? 0 : plans.front().turns()); ++turn) {
    for (BackwardPlan<T>& plan : plans) plan.begin_turn(turn);
    run_all(
        plans, parallel, [](const BackwardPlan<T>& plan) { return plan.tasks(); },
        [](BackwardPlan<T>& plan, Index i) { plan.task(i); });
    run_all(
        plans, parallel, [](const BackwardPlan<T>& plan) { return plan.sums(); },
        [](BackwardPlan<T>& plan, Index i) { plan.sum(i); });
  }
  for (BackwardPlan<T>& plan : plans) plan.finish();
  write_params(by_part, args.query_heads, gradients);
}

}  // namespace

void attention_backward(const AttentionArgs<float>& args, const View4<const float>& out,
                        const float* lse, const View4<const float>& d_out, const float* d_lse,
                        const AttentionGradients<float>& gradients, const Parallel& parallel) {
  check_args(args);
  check_backward_inputs(args, out.data, lse, d_out.data);
  choose_target();
  run_backward(args, out, lse, d_out, d_lse, gradients, parallel);
}

void attention_backward(const AttentionArgs<BFloat16>& args, const View4<const BFloat16>& out,
                        const float* lse, const View4<const BFloat16>& d_out, const float* d_lse,
                        const AttentionGradients<BFloat16>& gradients, const Parallel& parallel) {
  check_args(args);
  check_backward_inputs(args, out.data, lse, d_out.data);
  if (!has_bfloat16_products()) {
    return widened_backward(args, out, lse, d_out, d_lse, gradients, parallel);
  }
  run_backward(args, out, lse, d_out, d_lse, gradients, parallel);
}

}  // namespace ssa
#endif  // HWY_ONCE
