#include "op/composed_problem.h"

#include <algorithm>

#include "op/dropout.h"
#include "op/hidden.h"

namespace ssa {
namespace {

using namespace HWY_NAMESPACE;

// A block of scores of 0.5 MB stays in the second-level cache: at 32 x 4 heads of length 82, where
// a block of all rows has 3.4 MB, row maps take 0.55 to 0.65 of the time, also because less of what
// causality hides is computed. Fewer than 16 rows make slow products.
constexpr std::int64_t kLeastRows = 16, kMostRows = 128, kBlockScores = 1 << 17;
}  // namespace

ComposedProblem::ComposedProblem(const AttentionCall& call)
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
  if (call.mask || call.bias || call.key_lengths || call.window) {
    const at::Tensor unseen = never_seen().unsqueeze(-1);
    key = key.masked_fill(unseen, 0);
    if (value.defined()) value = value.masked_fill(unseen, 0);
  }
}

std::vector<Block> ComposedProblem::blocks() const {
  std::vector<Block> result;
  if (batch_ == 0 || query_heads_ == 0) return result;
  const std::int64_t row_scores = batch_ * query_heads_ * key_length_;
  const std::int64_t block_rows =
      std::clamp(kBlockScores / std::max<std::int64_t>(1, row_scores), kLeastRows, kMostRows);
  for (std::int64_t first = 0; first < query_length_; first += block_rows) {
    const std::int64_t rows = std::min(block_rows, query_length_ - first);
    const std::int64_t past = first + rows + key_length_ - query_length_;
    const std::int64_t columns =
        call_.causal ? std::clamp<std::int64_t>(past, 0, key_length_) : key_length_;
    if (columns > 0) result.push_back({first, rows, columns});
  }
  return result;
}

at::Tensor ComposedProblem::part(const at::Tensor& rank4, const Block& block) {
  at::Tensor view = rank4;
  if (view.size(2) != 1) view = view.narrow(2, block.first, block.rows);
  if (view.size(3) != 1) view = view.narrow(3, 0, block.columns);
  return view;
}

/// Key positions minus the position of the query, (rows, columns).
at::Tensor ComposedProblem::distances(const Block& block) const {
  const at::TensorOptions longs = call_.query.options().dtype(at::kLong);
  const std::int64_t first = block.first + key_length_ - query_length_;
  return at::arange(block.columns, longs) -
         at::arange(first, first + block.rows, longs).unsqueeze(-1);
}

/// ALiBi: slope·|distance| off the scores.
void ComposedProblem::subtract_distances(const Block& block, const at::Tensor& scores) const {
  const at::Tensor slopes = call_.alibi_slopes->view({1, -1, 1, 1});
  scores.sub_(distances(block).abs_().to(type_) * slopes);
}

/// What mask, bias, key_lengths, window and causality exclude, in the smallest shape that
/// broadcasts.
at::Tensor ComposedProblem::hidden_by_structure(const Block& block) const {
  at::Tensor hidden = at::zeros({1, 1, 1, 1}, call_.query.options().dtype(at::kBool));
  if (call_.causal) hidden = hidden | (distances(block) > 0);
  if (call_.window) hidden = hidden | (distances(block).abs_() >= *call_.window);
  if (call_.key_lengths) {
    const at::Tensor column = at::arange(block.columns, call_.key_lengths->options());
    hidden = hidden | (column >= call_.key_lengths->view({-1, 1, 1, 1}));
  }
  if (call_.mask) hidden = hidden | part(as_rank4(*call_.mask), block).logical_not();
  if (call_.bias) hidden = hidden | (part(as_rank4(call_.bias->detach()), block) == -kInf);
  return hidden;
}

/// (batch, key heads, key length): keys that no query of their heads may see. Whatever they hold,
/// they must not meet a product, for 0·NaN is NaN.
at::Tensor ComposedProblem::never_seen() const {
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

at::Tensor ComposedProblem::grouped_matmul(const at::Tensor& a, const at::Tensor& b) const {
  const std::int64_t group_rows = query_heads_ / kv_heads_ * a.size(2);
  return at::matmul(a.reshape({batch_, kv_heads_, group_rows, a.size(3)}), b)
      .view({batch_, query_heads_, a.size(2), b.size(3)});
}

at::Tensor ComposedProblem::grouped_outer(const at::Tensor& a, const at::Tensor& b) const {
  const std::int64_t group_rows = query_heads_ / kv_heads_ * a.size(2);
  return at::matmul(a.reshape({batch_, kv_heads_, group_rows, a.size(3)}).transpose(2, 3),
                    b.reshape({batch_, kv_heads_, group_rows, b.size(3)}));
}

BlockScores ComposedProblem::scores(const Block& block) const {
  BlockScores result;
  const at::Tensor keys = key.narrow(2, 0, block.columns).transpose(2, 3);
  result.scores = grouped_matmul(query_rows(block), keys).mul_(scale);
  if (call_.bias) result.scores.add_(part(as_rank4(call_.bias->detach()), block));
  if (call_.alibi_slopes) subtract_distances(block, result.scores);
  const at::Tensor structure = hidden_by_structure(block);
  // Only in the shape of all pairs where some visible score itself is −inf; other devices are not
  // asked, for that would wait for them.
  result.hidden = structure;
  zero_hidden_(result.scores, structure);
  if (!call_.query.is_cpu() || !(result.scores.amin().item<double>() > -kInf)) {
    result.hidden = (result.scores == -kInf).logical_or_(structure);
    zero_hidden_(result.scores, result.hidden);
  }
  result.params = params;
  with_score(call_.score, [&](auto score) {
    if (!kCountsKeys<decltype(score)>) return;
    const at::Tensor seen = structure.expand_as(result.scores).logical_not().sum(-1, true);
    result.params.push_back(seen.clamp_min(1).to(type_).log());
  });
  return result;
}

at::Tensor ComposedProblem::phi2(const BlockScores& scores) const {
  at::Tensor result;
  with_score(call_.score, [&](auto score) {
    result = decltype(score)::phi2(math, scores.scores, scores.params.data());
  });
  return minus_infinity_where_hidden(result, scores.hidden);
}

at::Tensor ComposedProblem::sink2() const {
  at::Tensor result;
  with_score(call_.score, [&](auto score) {
    if constexpr (kHasSink<decltype(score)>) result = decltype(score)::sink2(math, params.data());
  });
  return result;
}

at::Tensor ComposedProblem::dropout_factor(const Block& block) const {
  if (call_.dropout <= 0) return {};
  return dropout_keeps(*call_.seed, call_.dropout, call_.first_sequence, batch_, query_heads_,
                       block.first, block.rows, block.columns, call_.query.device())
      .to(type_)
      .mul_(1.0 / (1.0 - call_.dropout));
}

}  // namespace ssa
