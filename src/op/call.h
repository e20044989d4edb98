// One call of ssa::attention as a plain struct, so that its seventeen arguments are spelled out in
// this file alone: kernels for the dispatcher are written over AttentionCall and registered through
// unpacked<…>; call_attention sends one back through the dispatcher.
#pragma once

#include <torch/library.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ssa/score_info.h"

namespace ssa {

struct AttentionCall {
  at::Tensor query, key, value;
  std::string score;
  std::vector<at::Tensor> params;
  std::optional<at::Tensor> mask, bias, key_lengths;
  bool causal = false;
  std::optional<double> scale = std::nullopt;
  double dropout = 0.0;
  std::optional<std::int64_t> seed = std::nullopt;
  std::string kernel = "auto";
  std::optional<std::int64_t> window = std::nullopt;
  std::optional<at::Tensor> alibi_slopes = std::nullopt, cu_query = std::nullopt,
                            cu_key = std::nullopt;
  /// Not of the schema: dropout's counter of the first batch row.
  std::int64_t first_sequence = 0;
};

/// What the backward pass needs beyond the call: the forward's results, the gradients that come in,
/// and which of differentiable_inputs want a gradient.
struct BackwardCall {
  AttentionCall call;
  at::Tensor out, lse;
  std::optional<at::Tensor> grad_out, grad_lse;
  std::vector<bool> wanted;
};

using OptionalTensor = std::optional<at::Tensor>;
using AttentionTensors = std::tuple<at::Tensor, at::Tensor>;  ///< out, lse

// The argument list of the schema, once for declarations and once for uses.
#define SSA_ATTENTION_PARAMETERS                                                                   \
  const at::Tensor &query, const at::Tensor &key, const at::Tensor &value, std::string_view score, \
      at::TensorList params, const OptionalTensor &mask, const OptionalTensor &bias,               \
      const OptionalTensor &key_lengths, bool causal, std::optional<double> scale, double dropout, \
      std::optional<std::int64_t> seed, std::string_view kernel,                                   \
      std::optional<std::int64_t> window, const OptionalTensor &alibi_slopes,                      \
      const OptionalTensor &cu_query, const OptionalTensor &cu_key
#define SSA_ATTENTION_ARGUMENTS                                                                \
  query, key, value, std::string(score), params.vec(), mask, bias, key_lengths, causal, scale, \
      dropout, seed, std::string(kernel), window, alibi_slopes, cu_query, cu_key

using AttentionFunctionType = AttentionTensors(SSA_ATTENTION_PARAMETERS);
using BackwardFunctionType = std::vector<at::Tensor>(const at::Tensor& out, const at::Tensor& lse,
                                                     const OptionalTensor& grad_out,
                                                     const OptionalTensor& grad_lse,
                                                     const c10::List<bool>& wanted,
                                                     SSA_ATTENTION_PARAMETERS);

/// A kernel over the struct as a kernel over the schema's arguments.
template <AttentionTensors (*kKernel)(const AttentionCall&)>
AttentionTensors unpacked(SSA_ATTENTION_PARAMETERS) {
  return kKernel(AttentionCall{SSA_ATTENTION_ARGUMENTS});
}
template <std::vector<at::Tensor> (*kKernel)(const BackwardCall&)>
std::vector<at::Tensor> unpacked_backward(const at::Tensor& out, const at::Tensor& lse,
                                          const OptionalTensor& grad_out,
                                          const OptionalTensor& grad_lse,
                                          const c10::List<bool>& wanted, SSA_ATTENTION_PARAMETERS) {
  return kKernel({AttentionCall{SSA_ATTENTION_ARGUMENTS},
                  out,
                  lse,
                  grad_out,
                  grad_lse,
                  {wanted.begin(), wanted.end()}});
}

/// Through the dispatcher, at whatever key is next.
AttentionTensors call_attention(const AttentionCall& call);
std::vector<at::Tensor> call_attention_backward(const BackwardCall& call);

/// ssa::merge: see attention.h.
AttentionTensors merge_parts(at::TensorList out, at::TensorList lse, std::string_view score,
                             at::TensorList params);

/// Whether the score is of the φ family; others have no lse (theirs is an empty tensor).
bool is_phi(const AttentionCall& call);

/// The inputs that may have a gradient: query, key, value, params…, bias (if given).
std::vector<at::Tensor> differentiable_inputs(const AttentionCall& call);

/// Shapes, dtypes, devices and options; reads no tensor's values, so it serves Meta tensors too.
/// Throws c10::ValueError / TypeError / NotImplementedError naming the argument.
void check_call(const AttentionCall& call);

/// Values: score parameters in their range, key_lengths inside [0, key length], cumulative lengths
/// from 0 to the length without a step down.
void check_values(const AttentionCall& call);

/// "fused" or "composed"; an error where kernel="fused" cannot be had.
std::string_view choose_path(const AttentionCall& call);

/// cu_query or cu_key as int64 on the CPU, contiguous.
at::Tensor cumulative(const at::Tensor& cu);

/// The factor on query·key: the call's own, or 1/sqrt(head dimension).
double scale_of(const AttentionCall& call);

/// The type scores and gradients are computed in: float64 for float64, else float32.
at::ScalarType compute_type(const AttentionCall& call);

/// The seed of the call's dropout, drawn from torch's CPU generator where none was given;
/// nothing without dropout. What it returns is what last_dropout_seed() reports.
std::optional<std::int64_t> resolve_seed(const AttentionCall& call);

/// A mask or bias of 2 to 4 dimensions with leading dimensions of size 1 added: always rank 4.
at::Tensor as_rank4(const at::Tensor& tensor);

/// Uninitialised outputs: out strided as query is (heads inside or outside of length), lse
/// contiguous.
AttentionTensors make_outputs(const AttentionCall& call);

}  // namespace ssa
