#include "op/composed.h"

#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "op/dropout.h"
#include "op/tensor_math.h"
#include "ssa/scores-inl.h"

namespace ssa {
namespace {

using namespace HWY_NAMESPACE;  // scores-inl.h for the baseline target; tensors do not depend on it

// 64 to 256 rows time alike at length 1024; 128 keeps a block of scores near 0.5 MB a head there.
constexpr std::int64_t kBlockRows = 128;
constexpr double kInf = std::numeric_limits<double>::infinity();

/// Calls f(Score{}) for the score of that name; check_call has seen that there is one.
template <class F>
void with_score(const std::string& name, F&& f) {
  for_each_score(ScoreList{}, [&](auto score) {
    if (score.kName == name) f(score);
  });
}

/// Calls f(i, ∂φ/∂p_i) for each parameter of the score.
template <class Score, class F>
void for_each_dparam(const TensorMath& math, const at::Tensor& scores, const at::Tensor* params,
                     F&& f) {
  if constexpr (!Score::kParams.empty()) {
    [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
      (f(kIndex, Score::template dphi_dparam<static_cast<int>(kIndex)>(math, scores, params)), ...);
    }
    (std::make_index_sequence<Score::kParams.size()>{});
  }
}

/// Query rows [first, first + rows), which can see keys [0, columns) at most.
struct Block {
  std::int64_t first, rows, columns;
};

/// Scores of a block and what became of them, all (batch, query heads, rows, columns).
struct BlockScores {
  at::Tensor scores;  ///< s; 0 where hidden, so that derivatives stay finite
  at::Tensor hidden;  ///< true where the pair is excluded
  at::Tensor phi2;    ///< φ(s)·log2(e); -inf where hidden
};

/// The tensors of a call in the type that the scores are computed in, keys that no row may see
/// zeroed.
class Problem {
 public:
  explicit Problem(const AttentionCall& call);

  std::vector<Block> blocks() const;
  BlockScores scores(const Block& block) const;
  /// Query rows of the block, (batch, query heads, rows, head dimension).
  at::Tensor query_rows(const Block& block) const { return rows(call_.query, block); }
  at::Tensor rows(const at::Tensor& tensor, const Block& block) const {
    return tensor.narrow(2, block.first, block.rows).to(type_);
  }
  /// Part of a rank 4 mask or bias that belongs to the block; dimensions of size 1 stay.
  static at::Tensor part(const at::Tensor& rank4, const Block& block);
  /// a (batch, query heads, rows, x) times b (batch, key heads, x, y): heads of a group share b.
  at::Tensor grouped_matmul(const at::Tensor& a, const at::Tensor& b) const;
  /// Σ over rows and over the heads of a group of a_r^T·b_r: (batch, key heads, x, y).
  at::Tensor grouped_outer(const at::Tensor& a, const at::Tensor& b) const;
  /// Dropout's factor 0 or 1/(1-p) for a block's weights; undefined without dropout.
  at::Tensor dropout_factor(const Block& block) const;

  at::Tensor key, value;           ///< contiguous
  std::vector<at::Tensor> params;  ///< (1, query heads or 1, 1, 1)
  TensorMath math;
  double scale;

 private:
  at::Tensor hidden_by_structure(const Block& block) const;
  at::Tensor never_seen() const;

  const AttentionCall& call_;
  at::ScalarType type_;
  std::int64_t batch_, query_heads_, kv_heads_, query_length_, key_length_;
};

Problem::Problem(const AttentionCall& call)
    : scale(scale_of(call)),
      call_(call),
      type_(compute_type(call)),
      batch_(call.query.size(0)),
      query_heads_(call.query.size(1)),
      kv_heads_(call.key.size(1)),
      query_length_(call.query.size(2)),
      key_length_(call.key.size(2)) {
  math.options = call.query.options().dtype(type_);
  for (const at::Tensor& param : call.params) params.push_back(param.reshape({1, -1, 1, 1}));
  key = call.key.to(type_).contiguous();
  if (call.value.defined()) value = call.value.to(type_).contiguous();
  if (call.mask || call.bias || call.key_lengths) {
    const at::Tensor unseen = never_seen().unsqueeze(-1);
    key = key.masked_fill(unseen, 0);
    if (value.defined()) value = value.masked_fill(unseen, 0);
  }
}

std::vector<Block> Problem::blocks() const {
  std::vector<Block> result;
  if (batch_ == 0 || query_heads_ == 0) return result;
  for (std::int64_t first = 0; first < query_length_; first += kBlockRows) {
    const std::int64_t rows = std::min(kBlockRows, query_length_ - first);
    const std::int64_t past = first + rows + key_length_ - query_length_;
    const std::int64_t columns =
        call_.causal ? std::clamp<std::int64_t>(past, 0, key_length_) : key_length_;
    if (columns > 0) result.push_back({first, rows, columns});
  }
  return result;
}

at::Tensor Problem::part(const at::Tensor& rank4, const Block& block) {
  at::Tensor view = rank4;
  if (view.size(2) != 1) view = view.narrow(2, block.first, block.rows);
  if (view.size(3) != 1) view = view.narrow(3, 0, block.columns);
  return view;
}

/// What mask, bias, key_lengths and causality exclude, in the smallest shape that broadcasts.
at::Tensor Problem::hidden_by_structure(const Block& block) const {
  const at::TensorOptions longs = call_.query.options().dtype(at::kLong);
  const at::Tensor column = at::arange(block.columns, longs);
  at::Tensor hidden = at::zeros({1, 1, 1, 1}, longs.dtype(at::kBool));
  if (call_.causal) {
    const at::Tensor row = at::arange(block.first, block.first + block.rows, longs).unsqueeze(-1);
    hidden = hidden | (column > row + (key_length_ - query_length_));
  }
  if (call_.key_lengths) hidden = hidden | (column >= call_.key_lengths->view({-1, 1, 1, 1}));
  if (call_.mask) hidden = hidden | part(as_rank4(*call_.mask), block).logical_not();
  if (call_.bias) hidden = hidden | (part(as_rank4(call_.bias->detach()), block) == -kInf);
  return hidden;
}

/// (batch, key heads, key length): keys that no query of their heads may see. Whatever they hold,
/// they must not meet a product, for 0·NaN is NaN.
at::Tensor Problem::never_seen() const {
  at::Tensor unseen =
      at::ones({batch_, kv_heads_, key_length_}, call_.query.options().dtype(at::kBool));
  for (const Block& block : blocks()) {
    const at::Tensor hidden =
        hidden_by_structure(block).all(2).expand({batch_, query_heads_, block.columns});
    const at::Tensor by_group = hidden.reshape({batch_, kv_heads_, -1, block.columns}).all(2);
    unseen.narrow(2, 0, block.columns).logical_and_(by_group);
  }
  return unseen;
}

at::Tensor Problem::grouped_matmul(const at::Tensor& a, const at::Tensor& b) const {
  const std::int64_t group_rows = query_heads_ / kv_heads_ * a.size(2);
  return at::matmul(a.reshape({batch_, kv_heads_, group_rows, a.size(3)}), b)
      .view({batch_, query_heads_, a.size(2), b.size(3)});
}

at::Tensor Problem::grouped_outer(const at::Tensor& a, const at::Tensor& b) const {
  const std::int64_t group_rows = query_heads_ / kv_heads_ * a.size(2);
  return at::matmul(a.reshape({batch_, kv_heads_, group_rows, a.size(3)}).transpose(2, 3),
                    b.reshape({batch_, kv_heads_, group_rows, b.size(3)}));
}

BlockScores Problem::scores(const Block& block) const {
  BlockScores result;
  const at::Tensor keys = key.narrow(2, 0, block.columns).transpose(2, 3);
  result.scores = grouped_matmul(query_rows(block), keys).mul_(scale);
  if (call_.bias) result.scores.add_(part(as_rank4(call_.bias->detach()), block));
  result.hidden = (result.scores == -kInf).logical_or_(hidden_by_structure(block));
  result.scores.masked_fill_(result.hidden, 0);
  with_score(call_.score, [&](auto score) {
    result.phi2 = decltype(score)::phi2(math, result.scores, params.data());
  });
  result.phi2.masked_fill_(result.hidden, -kInf);
  return result;
}

at::Tensor Problem::dropout_factor(const Block& block) const {
  if (call_.dropout <= 0) return {};
  return dropout_keeps(*call_.seed, call_.dropout, batch_, query_heads_, block.first, block.rows,
                       block.columns, call_.query.device())
      .to(type_)
      .mul_(1.0 / (1.0 - call_.dropout));
}

/// The backward pass: adds up the wanted gradients block by block, in compute_type.
class Gradients {
 public:
  explicit Gradients(const BackwardCall& backward);

  void add(const Block& block);
  /// The wanted ones of differentiable_inputs, each in its input's type.
  std::vector<at::Tensor> result() const;

  const Problem problem;

 private:
  /// Of the weights before dropout; adds to d_value on the way.
  at::Tensor through_value(const Block& block, const at::Tensor& weights, const at::Tensor& empty);
  void add_params(const at::Tensor& scores, const at::Tensor& d_phi);
  void add_scores(const Block& block, const at::Tensor& d_scores, const at::Tensor& empty);

  const BackwardCall& backward_;
  const std::vector<at::Tensor> inputs_;
  std::vector<at::Tensor> sums_;  ///< undefined = not wanted
  at::Tensor d_query_, d_key_, d_value_, d_bias_;
};

Gradients::Gradients(const BackwardCall& backward)
    : problem(backward.call),
      backward_(backward),
      inputs_(differentiable_inputs(backward.call)),
      sums_(inputs_.size()) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (backward.wanted[i]) sums_[i] = at::zeros_like(inputs_[i], problem.math.options);
  }
  d_query_ = sums_[0];
  d_key_ = sums_[1];
  d_value_ = sums_[2];
  if (backward.call.bias) d_bias_ = sums_.back();
}

void Gradients::add(const Block& block) {
  const BlockScores block_scores = problem.scores(block);
  const at::Tensor lse = problem.rows(backward_.lse, block).unsqueeze(-1);
  const at::Tensor empty = lse == -kInf;
  // Divided by their sum although lse holds it: lse is rounded, and weights that do not sum to 1 to
  // the last bit give dn and db 1.4 times the error of eager PyTorch.
  at::Tensor weights = (block_scores.phi2 - lse.masked_fill(empty, 0).mul_(kLog2E)).exp2_();
  weights.div_(weights.sum(-1, true).masked_fill_(empty, 1));

  const at::Tensor d_weights = through_value(block, weights, empty);
  // Σ_j p_j·dP_j from these very numbers, not from out: dn and db are sums that cancel a
  // thousandfold, and an out rounded to bfloat16 would spoil them.
  at::Tensor centre = (weights * d_weights).sum(-1, true);
  if (backward_.grad_lse) {
    centre.sub_(problem.rows(*backward_.grad_lse, block).unsqueeze(-1).masked_fill(empty, 0));
  }
  const at::Tensor d_phi = weights.mul_(d_weights - centre);
  add_params(block_scores.scores, d_phi);
  if (!d_query_.defined() && !d_key_.defined() && !d_bias_.defined()) return;
  with_score(backward_.call.score, [&](auto score) {
    d_phi.mul_(decltype(score)::dphi_ds(problem.math, block_scores.scores, problem.params.data()));
  });
  add_scores(block, d_phi, empty);
}

at::Tensor Gradients::through_value(const Block& block, const at::Tensor& weights,
                                    const at::Tensor& empty) {
  if (!backward_.grad_out) return at::zeros({1, 1, 1, 1}, problem.math.options);
  const at::Tensor factor = problem.dropout_factor(block);
  // Rows that see nothing have weights 0, but 0·NaN of their gradient would be NaN.
  const at::Tensor d_out = problem.rows(*backward_.grad_out, block).masked_fill(empty, 0);
  // out = (weights · factor)·value
  if (d_value_.defined()) {
    const at::Tensor kept = factor.defined() ? weights * factor : weights;
    d_value_.narrow(2, 0, block.columns).add_(problem.grouped_outer(kept, d_out));
  }
  at::Tensor d_weights =
      problem.grouped_matmul(d_out, problem.value.narrow(2, 0, block.columns).transpose(2, 3));
  return factor.defined() ? d_weights.mul_(factor) : d_weights;
}

void Gradients::add_params(const at::Tensor& scores, const at::Tensor& d_phi) {
  with_score(backward_.call.score, [&]<class Score>(Score) {
    for_each_dparam<Score>(
        problem.math, scores, problem.params.data(),
        [&](std::size_t i, const at::Tensor& derivative) {
          const at::Tensor& sum = sums_[3 + i];
          if (!sum.defined()) return;
          const at::Tensor by_head = (d_phi * derivative).sum({0, 2, 3});
          sum.add_(sum.numel() == by_head.numel() ? by_head.view_as(sum) : by_head.sum());
        });
  });
}

/// scores = scale · query·key^T + bias
void Gradients::add_scores(const Block& block, const at::Tensor& d_scores,
                           const at::Tensor& empty) {
  if (d_bias_.defined()) {
    const at::Tensor part = Problem::part(as_rank4(d_bias_), block);
    part.add_(d_scores.sum_to_size(part.sizes()));
  }
  if (d_query_.defined()) {
    d_query_.narrow(2, block.first, block.rows)
        .copy_(problem.grouped_matmul(d_scores, problem.key.narrow(2, 0, block.columns))
                   .mul_(problem.scale));
  }
  if (d_key_.defined()) {
    const at::Tensor query = problem.query_rows(block).masked_fill(empty, 0);
    d_key_.narrow(2, 0, block.columns)
        .add_(problem.grouped_outer(d_scores, query).mul_(problem.scale));
  }
}

std::vector<at::Tensor> Gradients::result() const {
  std::vector<at::Tensor> wanted;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (sums_[i].defined()) wanted.push_back(sums_[i].to(inputs_[i].scalar_type()));
  }
  return wanted;
}

}  // namespace

void composed_forward(const AttentionCall& call, const at::Tensor& out, const at::Tensor& lse) {
  const Problem problem(call);
  out.zero_();
  lse.fill_(-kInf);
  for (const Block& block : problem.blocks()) {
    const at::Tensor phi2 = problem.scores(block).phi2;
    at::Tensor peak = phi2.amax(-1, true);
    const at::Tensor empty = peak == -kInf;  // rows that see no key
    peak.masked_fill_(empty, 0);
    at::Tensor weights = (phi2 - peak).exp2_();
    const at::Tensor sum = weights.sum(-1, true);
    const at::Tensor factor = problem.dropout_factor(block);
    if (factor.defined()) weights.mul_(factor);
    const at::Tensor rows =
        problem.grouped_matmul(weights, problem.value.narrow(2, 0, block.columns))
            .div_(sum)
            .masked_fill_(empty, 0);
    out.narrow(2, block.first, block.rows).copy_(rows);
    lse.narrow(2, block.first, block.rows).copy_(sum.log_().add_(peak.mul_(kLn2)).squeeze(-1));
  }
}

std::vector<at::Tensor> composed_backward(const BackwardCall& backward) {
  Gradients gradients(backward);
  for (const Block& block : gradients.problem.blocks()) gradients.add(block);
  return gradients.result();
}

at::Tensor composed_weights(const AttentionCall& call) {
  const Problem problem(call);
  at::Tensor weights =
      at::zeros({call.query.size(0), call.query.size(1), call.query.size(2), call.key.size(2)},
                problem.math.options);
  for (const Block& block : problem.blocks()) {
    const BlockScores scores = problem.scores(block);
    const at::Tensor empty = scores.hidden.all(-1, true);
    const at::Tensor rows = at::softmax(scores.phi2.mul_(kLn2), -1).masked_fill_(empty, 0);
    weights.narrow(2, block.first, block.rows).narrow(3, 0, block.columns).copy_(rows);
  }
  return weights;
}

}  // namespace ssa
