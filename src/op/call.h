// One call of ssa::attention as a plain struct. op/fields.h lists its members as the arguments of
// the schema; kernels for the dispatcher are written over the structs.
#pragma once

#include <torch/library.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "op/attention.h"
#include "ssa/score_info.h"

namespace ssa {

struct AttentionCall : AttentionOptions {
  at::Tensor query, key, value;
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
/// from 0 to the length without a step down. Tensors that are not on the CPU are read only where
/// the environment variable SSA_CHECK_VALUES is 1, for reading waits for the device.
void check_values(const AttentionCall& call);

/// "fused" or "composed"; an error where kernel="fused" cannot be had.
std::string_view choose_path(const AttentionCall& call);

/// cu_query or cu_key as int64 on the CPU, contiguous.
at::Tensor cumulative(const at::Tensor& cu);

/// The factor on query·key: the call's own, or 1/sqrt(head dimension).
double scale_of(const AttentionCall& call);

/// The type scores and gradients are computed in: float64 for float64, else float32.
at::ScalarType compute_type(const AttentionCall& call);

/// The seed of the call's dropout, drawn from the generator of query's device where none was given;
/// nothing without dropout. What it returns is what last_dropout_seed() reports.
std::optional<at::Tensor> resolve_seed(const AttentionCall& call);

/// A mask or bias of 2 to 4 dimensions with leading dimensions of size 1 added: always rank 4.
at::Tensor as_rank4(const at::Tensor& tensor);

/// Uninitialised outputs: out strided as query is (heads inside or outside of length), lse
/// contiguous.
AttentionTensors make_outputs(const AttentionCall& call);

}  // namespace ssa
