#include "op/composed.h"

#include <torch/types.h>

#include <utility>

#include "op/composed_problem.h"
#include "op/cosformer.h"
#include "op/hidden.h"
#include "op/row_maps.h"

namespace ssa {
namespace {

using namespace HWY_NAMESPACE;

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

/// The backward pass: adds up the wanted gradients block by block, in compute_type.
class Gradients {
 public:
  explicit Gradients(const BackwardCall& backward);

  void add(const Block& block);
  /// The wanted ones of differentiable_inputs, each in its input's type.
  std::vector<at::Tensor> result() const;

  const ComposedProblem problem;

 private:
  /// Of the weights before dropout; adds to d_value on the way.
  at::Tensor through_value(const Block& block, const at::Tensor& weights, const at::Tensor& empty);
  at::Tensor phi_scores(const Block& block, const BlockScores& scores, const at::Tensor& empty);
  at::Tensor row_map_scores(const Block& block, const BlockScores& scores, const at::Tensor& empty);
  void add_phi_params(const BlockScores& scores, const at::Tensor& d_phi);
  void add_sink_params(const at::Tensor& d_sink);
  void add_param(std::size_t i, const at::Tensor& by_pair);
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
  const BlockScores scores = problem.scores(block);
  const at::Tensor empty = scores.hidden.all(-1, true);
  const at::Tensor d_scores = is_phi(backward_.call) ? phi_scores(block, scores, empty)
                                                     : row_map_scores(block, scores, empty);
  if (d_query_.defined() || d_key_.defined() || d_bias_.defined()) {
    add_scores(block, d_scores, empty);
  }
}

at::Tensor Gradients::phi_scores(const Block& block, const BlockScores& scores,
                                 const at::Tensor& empty) {
  const at::Tensor lse2 =
      problem.rows(backward_.lse, block).unsqueeze(-1).masked_fill(empty, 0).mul_(kLog2E);
  // Divided by their sum although lse holds it: lse is rounded, and weights that do not sum to 1 to
  // the last bit give dn and db 1.4 times the error of eager PyTorch.
  at::Tensor weights = (problem.phi2(scores) - lse2).exp2_();
  weights.div_(weights.sum(-1, true).masked_fill_(empty, 1));
  at::Tensor d_phi;
  if (backward_.grad_lse) {  // lse is without the sink, and so are these weights
    d_phi = weights * problem.rows(*backward_.grad_lse, block).unsqueeze(-1).masked_fill(empty, 0);
  }
  const at::Tensor sink2 = problem.sink2();
  if (sink2.defined()) weights.mul_((lse2 - sink2).mul_(kLn2).sigmoid_());

  const at::Tensor d_weights = through_value(block, weights, empty);
  // Σ_j p_j·dP_j from these very numbers, not from out: dn and db are sums that cancel a
  // thousandfold, and an out rounded to bfloat16 would spoil them.
  const at::Tensor centre = (weights * d_weights).sum(-1, true);
  const at::Tensor through_weights = weights.mul_(d_weights - centre);
  d_phi = d_phi.defined() ? d_phi.add_(through_weights) : through_weights;
  add_phi_params(scores, d_phi);
  if (sink2.defined()) {
    const at::Tensor sink = (sink2 - lse2).mul_(kLn2).sigmoid_().masked_fill_(empty, 0);
    add_sink_params(sink.mul_(centre).neg_());
  }
  with_score(backward_.call.score, [&](auto score) {
    d_phi.mul_(decltype(score)::dphi_ds(problem.math, scores.scores, scores.params.data()));
  });
  return d_phi;
}

at::Tensor Gradients::row_map_scores(const Block& block, const BlockScores& scores,
                                     const at::Tensor& empty) {
  const RowMap& map = find_row_map(backward_.call.score);
  const ScoreRows rows{scores.scores, scores.hidden, scores.params};
  const at::Tensor weights = map.weights(rows);
  const at::Tensor d_weights = through_value(block, weights, empty).expand_as(weights);
  const RowGradients gradients = map.gradients(rows, weights, d_weights);
  for (std::size_t i = 0; i < gradients.params.size(); ++i) add_param(i, gradients.params[i]);
  return gradients.scores;
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

void Gradients::add_phi_params(const BlockScores& scores, const at::Tensor& d_phi) {
  with_score(backward_.call.score, [&]<class Score>(Score) {
    for_each_dparam<Score>(
        problem.math, scores.scores, scores.params.data(),
        [&](std::size_t i, const at::Tensor& derivative) { add_param(i, d_phi * derivative); });
  });
}

void Gradients::add_sink_params(const at::Tensor& d_sink) {
  with_score(backward_.call.score, [&]<class Score>(Score) {
    if constexpr (kHasSink<Score> && !Score::kParams.empty()) {
      [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
        (add_param(kIndex, d_sink * Score::template dsink_dparam<static_cast<int>(kIndex)>(
                                        problem.math, problem.params.data())),
         ...);
      }
      (std::make_index_sequence<Score::kParams.size()>{});
    }
  });
}

/// by_pair: (batch, query heads, rows, keys or 1).
void Gradients::add_param(std::size_t i, const at::Tensor& by_pair) {
  const at::Tensor& sum = sums_[3 + i];
  if (!sum.defined()) return;
  const at::Tensor by_head = by_pair.sum({0, 2, 3});
  sum.add_(sum.numel() == by_head.numel() ? by_head.view_as(sum) : by_head.sum());
}

/// scores = scale · query·key^T + bias
void Gradients::add_scores(const Block& block, const at::Tensor& d_scores,
                           const at::Tensor& empty) {
  if (d_bias_.defined()) {
    const at::Tensor part = ComposedProblem::part(as_rank4(d_bias_), block);
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

namespace {

/// One number for all heads (check_values), as a tensor: reading it would wait for the device.
at::Tensor cosformer_length(const AttentionCall& call) { return call.params[0].max(); }

void phi_forward(const AttentionCall& call, const at::Tensor& out, const at::Tensor& lse) {
  const ComposedProblem problem(call);
  lse.fill_(-kInf);
  const at::Tensor sink2 = problem.sink2();
  for (const Block& block : problem.blocks()) {
    const at::Tensor phi2 = problem.phi2(problem.scores(block));
    at::Tensor peak = phi2.amax(-1, true);
    const at::Tensor empty = peak == -kInf;  // rows that see no key
    peak.masked_fill_(empty, 0);
    at::Tensor weights = (phi2 - peak).exp2_();
    const at::Tensor sum = weights.sum(-1, true);
    const at::Tensor factor = problem.dropout_factor(block);
    if (factor.defined()) weights.mul_(factor);
    const at::Tensor normaliser = sink2.defined() ? sum + (sink2 - peak).exp2_() : sum;
    const at::Tensor rows =
        problem.grouped_matmul(weights, problem.value.narrow(2, 0, block.columns))
            .div_(normaliser)
            .masked_fill_(empty, 0);
    out.narrow(2, block.first, block.rows).copy_(rows);
    lse.narrow(2, block.first, block.rows).copy_(sum.log().add_(peak.mul_(kLn2)).squeeze(-1));
  }
}

void row_map_forward(const AttentionCall& call, const at::Tensor& out) {
  const ComposedProblem problem(call);
  const RowMap& map = find_row_map(call.score);
  for (const Block& block : problem.blocks()) {
    const BlockScores scores = problem.scores(block);
    at::Tensor weights = map.weights({scores.scores, scores.hidden, scores.params});
    const at::Tensor factor = problem.dropout_factor(block);
    if (factor.defined()) weights.mul_(factor);
    out.narrow(2, block.first, block.rows)
        .copy_(problem.grouped_matmul(weights, problem.value.narrow(2, 0, block.columns))
                   .masked_fill_(scores.hidden.all(-1, true), 0));
  }
}

void linear_forward(const AttentionCall& call, const at::Tensor& out) {
  const at::ScalarType type = compute_type(call);
  out.copy_(cosformer_forward(call.query.to(type), call.key.to(type), call.value.to(type),
                              call.key_lengths, call.causal, cosformer_length(call)));
}

std::vector<at::Tensor> linear_backward(const BackwardCall& backward) {
  const AttentionCall& call = backward.call;
  const at::ScalarType type = compute_type(call);
  const auto [d_query, d_key, d_value] = cosformer_backward(
      backward.grad_out->to(type), call.query.to(type), call.key.to(type), call.value.to(type),
      call.key_lengths, call.causal, cosformer_length(call));
  const at::Tensor* gradients[] = {&d_query, &d_key, &d_value};
  std::vector<at::Tensor> wanted;
  for (std::size_t i = 0; i < 3; ++i) {
    if (!backward.wanted[i]) continue;
    // Strided as the input, which is what backward_meta promises.
    wanted.push_back(at::empty_like(differentiable_inputs(call)[i]).copy_(*gradients[i]));
  }
  return wanted;
}

}  // namespace

namespace {

/// A packed sequence as a call of its own; its tensors are views.
struct Sequence {
  AttentionCall call;
  std::int64_t first_query, first_key;

  at::Tensor queries(const at::Tensor& whole) const {
    return whole.narrow(2, first_query, call.query.size(2));
  }
  at::Tensor keys(const at::Tensor& whole) const {
    return whole.narrow(2, first_key, call.key.size(2));
  }
};

std::vector<Sequence> sequences_of(const AttentionCall& packed) {
  const at::Tensor cu_query = cumulative(*packed.cu_query), cu_key = cumulative(*packed.cu_key);
  const std::int64_t *query = cu_query.const_data_ptr<std::int64_t>(),
                     *key = cu_key.const_data_ptr<std::int64_t>();
  std::vector<Sequence> sequences;
  for (std::int64_t s = 0; s + 1 < cu_query.numel(); ++s) {
    AttentionCall call = packed;
    call.cu_query.reset();
    call.cu_key.reset();
    call.first_sequence = s;
    call.query = packed.query.narrow(2, query[s], query[s + 1] - query[s]);
    call.key = packed.key.narrow(2, key[s], key[s + 1] - key[s]);
    call.value = packed.value.narrow(2, key[s], key[s + 1] - key[s]);
    sequences.push_back({std::move(call), query[s], key[s]});
  }
  return sequences;
}

std::vector<at::Tensor> packed_backward(const BackwardCall& packed) {
  const std::vector<at::Tensor> inputs = differentiable_inputs(packed.call);
  std::vector<at::Tensor> results;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (packed.wanted[i]) results.push_back(at::zeros_like(inputs[i]));
  }
  for (const Sequence& s : sequences_of(packed.call)) {
    const auto queries = [&](const at::Tensor& whole) {
      return whole.dim() < 3 ? whole : s.queries(whole);  // a score without lse has an empty one
    };
    BackwardCall one{s.call, queries(packed.out), queries(packed.lse), {}, {}, packed.wanted};
    if (packed.grad_out) one.grad_out = queries(*packed.grad_out);
    if (packed.grad_lse) one.grad_lse = queries(*packed.grad_lse);
    const std::vector<at::Tensor> own = composed_backward(one);
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!packed.wanted[i]) continue;
      const at::Tensor& whole = results[next];
      const at::Tensor part = i == 0 ? s.queries(whole) : i <= 2 ? s.keys(whole) : whole;
      i <= 2 ? part.copy_(own[next]) : part.add_(own[next]);
      ++next;
    }
  }
  return results;
}

}  // namespace

void composed_forward(const AttentionCall& call, const at::Tensor& out, const at::Tensor& lse) {
  if (call.cu_query) {
    for (const Sequence& s : sequences_of(call)) {
      composed_forward(s.call, s.queries(out), lse.dim() == 3 ? s.queries(lse) : lse);
    }
    return;
  }
  out.zero_();
  switch (find_score(call.score).family) {
    case ScoreFamily::kPhi:
      return phi_forward(call, out, lse);
    case ScoreFamily::kRowMap:
      return row_map_forward(call, out);
    case ScoreFamily::kLinear:
      return linear_forward(call, out);
  }
}

std::vector<at::Tensor> composed_backward(const BackwardCall& backward) {
  if (backward.call.cu_query) return packed_backward(backward);
  if (find_score(backward.call.score).family == ScoreFamily::kLinear) {
    return linear_backward(backward);
  }
  Gradients gradients(backward);
  for (const Block& block : gradients.problem.blocks()) gradients.add(block);
  return gradients.result();
}

at::Tensor composed_weights(const AttentionCall& call) {
  const ScoreFamily family = find_score(call.score).family;
  if (family == ScoreFamily::kLinear) {
    const at::ScalarType type = compute_type(call);
    return cosformer_weights(call.query.to(type), call.key.to(type), call.key_lengths, call.causal,
                             cosformer_length(call));
  }
  const ComposedProblem problem(call);
  at::Tensor weights =
      at::zeros({call.query.size(0), call.query.size(1), call.query.size(2), call.key.size(2)},
                problem.math.options);
  for (const Block& block : problem.blocks()) {
    const BlockScores scores = problem.scores(block);
    at::Tensor rows;
    if (family == ScoreFamily::kRowMap) {
      rows = find_row_map(call.score).weights({scores.scores, scores.hidden, scores.params});
    } else {
      at::Tensor phi = problem.phi2(scores).mul_(kLn2);
      const at::Tensor sink2 = problem.sink2();
      const std::int64_t columns = phi.size(-1);
      if (sink2.defined()) {  // one more key, whose weight is left out
        const at::Tensor sink = (sink2 * kLn2).expand({phi.size(0), phi.size(1), phi.size(2), 1});
        phi = at::cat({phi, sink}, -1);
      }
      rows =
          at::softmax(phi, -1).narrow(-1, 0, columns).masked_fill(scores.hidden.all(-1, true), 0);
    }
    weights.narrow(2, block.first, block.rows).narrow(3, 0, block.columns).copy_(rows);
  }
  return weights;
}

}  // namespace ssa
