#include "op/attention.h"

#include <torch/torch.h>

#include "op/call.h"

namespace ssa {

AttentionTensors call_attention(const AttentionCall& c) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ssa::attention", "")
                             .typed<AttentionFunctionType>();
  return op.call(c.query, c.key, c.value, c.score, c.params, c.mask, c.bias, c.key_lengths,
                 c.causal, c.scale, c.dropout, c.seed, c.kernel, c.window, c.alibi_slopes,
                 c.cu_query, c.cu_key);
}

std::vector<at::Tensor> call_attention_backward(const BackwardCall& b) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ssa::attention_backward", "")
                             .typed<BackwardFunctionType>();
  const AttentionCall& c = b.call;
  c10::List<bool> wanted;
  for (const bool each : b.wanted) wanted.push_back(each);
  return op.call(b.out, b.lse, b.grad_out, b.grad_lse, wanted, c.query, c.key, c.value, c.score,
                 c.params, c.mask, c.bias, c.key_lengths, c.causal, c.scale, c.dropout, c.seed,
                 c.kernel, c.window, c.alibi_slopes, c.cu_query, c.cu_key);
}

AttentionResult attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const AttentionOptions& options) {
  AttentionCall call{query,
                     key,
                     value,
                     options.score,
                     options.params,
                     options.mask,
                     options.bias,
                     options.key_lengths,
                     options.causal,
                     options.scale,
                     options.dropout,
                     options.seed,
                     options.kernel,
                     options.window,
                     options.alibi_slopes,
                     options.cu_query,
                     options.cu_key};
  const auto [out, lse] = call_attention(call);
  return {out, lse};
}

at::Tensor attention_weights(const at::Tensor& query, const at::Tensor& key,
                             const AttentionOptions& options) {
  TORCH_CHECK_VALUE(!options.cu_query && !options.cu_key,
                    "ssa::attention_weights: packed sequences (cu_query, cu_key) have no common "
                    "matrix of weights; call it for each sequence");
  using Weights =
      at::Tensor(const at::Tensor&, const at::Tensor&, std::string_view, at::TensorList,
                 const OptionalTensor&, const OptionalTensor&, const OptionalTensor&, bool,
                 std::optional<double>, std::optional<std::int64_t>, const OptionalTensor&);
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ssa::attention_weights", "").typed<Weights>();
  return op.call(query, key, options.score, options.params, options.mask, options.bias,
                 options.key_lengths, options.causal, options.scale, options.window,
                 options.alibi_slopes);
}

}  // namespace ssa
