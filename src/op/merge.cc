// Partial results over disjoint keys, merged by plain tensor operations: any device, type and order
// of derivatives. Gradients flow through out, lse and the sink's parameters.
#include <torch/types.h>

#include <limits>

#include "op/attention.h"
#include "op/call.h"
#include "op/composed_problem.h"

namespace ssa {
namespace {

constexpr const char* kMerge = "ssa::merge: ";

AttentionCall check_parts(at::TensorList out, at::TensorList lse, std::string_view score,
                          at::TensorList params) {
  TORCH_CHECK_VALUE(!out.empty(), kMerge, "out must have at least one tensor");
  TORCH_CHECK_VALUE(out.size() == lse.size(), kMerge, "out and lse must be equally many, got ",
                    out.size(), " and ", lse.size());
  for (std::size_t k = 0; k < out.size(); ++k) {
    TORCH_CHECK_VALUE(out[k].dim() == 4, kMerge, "out[", k,
                      "] must have 4 dimensions (batch, heads, length, head dimension), got shape ",
                      out[k].sym_sizes());
    TORCH_CHECK_VALUE(out[k].sym_sizes() == out[0].sym_sizes(), kMerge, "out[", k, "] has shape ",
                      out[k].sym_sizes(), " but out[0] ", out[0].sym_sizes());
    TORCH_CHECK_TYPE(out[k].scalar_type() == out[0].scalar_type(), kMerge, "out[", k, "] is ",
                     out[k].scalar_type(), " but out[0] is ", out[0].scalar_type());
  }
  AttentionCall call;
  call.query = call.key = call.value = out[0];
  call.score = score;
  call.params = params.vec();
  check_call(call);
  TORCH_CHECK_VALUE(is_phi(call), kMerge, "score \"", score,
                    "\" has no lse, so that its results cannot be merged");
  for (std::size_t k = 0; k < lse.size(); ++k) {
    const c10::SymIntArrayRef rows = out[0].sym_sizes().slice(0, 3);
    TORCH_CHECK_VALUE(lse[k].sym_sizes() == rows, kMerge, "lse[", k, "] must have shape ", rows,
                      ", got ", lse[k].sym_sizes());
    TORCH_CHECK_TYPE(lse[k].scalar_type() == compute_type(call), kMerge, "lse[", k, "] must be ",
                     compute_type(call), " with an out of ", out[0].scalar_type(), ", got ",
                     lse[k].scalar_type());
  }
  return call;
}

/// z of the score's term e^z of the normaliser, (heads or 1, 1); undefined without one.
at::Tensor sink_of(const AttentionCall& call) {
  std::vector<at::Tensor> params;
  for (const at::Tensor& param : call.params) params.push_back(param.reshape({-1, 1}));
  const TensorMath math{call.query.options().dtype(compute_type(call))};
  at::Tensor sink;
  with_score(call.score, [&]<class Score>(Score) {
    if constexpr (HWY_NAMESPACE::kHasSink<Score>) {
      sink = Score::sink2(math, params.data()) * HWY_NAMESPACE::kLn2;
    }
  });
  return sink;
}

}  // namespace

AttentionTensors merge_parts(at::TensorList out, at::TensorList lse, std::string_view score,
                             at::TensorList params) {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  const AttentionCall call = check_parts(out, lse, score, params);
  const auto count = static_cast<std::int64_t>(out.size());
  const at::Tensor parts = at::stack(lse);  // (parts, batch, heads, length)
  const at::Tensor nothing = parts == kNothing;
  const at::Tensor none = nothing.all(0);
  const at::Tensor rows = parts.masked_fill(none, 0);  // −inf alone would have gradient NaN
  const at::Tensor whole = at::logsumexp(rows, 0).masked_fill(none, kNothing);

  // exp(lse_k − lse); with a sink in each normaliser (exp lse_k + e^z) / (exp lse + e^z).
  at::Tensor weights;
  if (const at::Tensor sink = sink_of(call); sink.defined()) {
    const at::Tensor shares = at::softmax(at::cat({rows, sink.expand_as(none).unsqueeze(0)}), 0);
    weights = shares.narrow(0, 0, count) + shares.narrow(0, count, 1);
  } else {
    weights = at::softmax(rows, 0);
  }
  at::Tensor sum;
  for (std::int64_t k = 0; k < count; ++k) {
    const at::Tensor part = out[k].to(compute_type(call)).masked_fill(nothing[k].unsqueeze(-1), 0);
    const at::Tensor term = weights[k].unsqueeze(-1) * part;
    sum = k == 0 ? term : sum + term;
  }
  return {sum.to(out[0].scalar_type()), whole};
}

AttentionResult merge(const std::vector<AttentionResult>& parts, const std::string& score,
                      const std::vector<at::Tensor>& params) {
  std::vector<at::Tensor> out, lse;
  for (const AttentionResult& part : parts) {
    out.push_back(part.out);
    lse.push_back(part.lse);
  }
  const auto [merged_out, merged_lse] = merge_parts(out, lse, score, params);
  return {merged_out, merged_lse};
}

}  // namespace ssa
