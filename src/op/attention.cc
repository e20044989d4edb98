#include "op/attention.h"

#include <torch/types.h>

#include "op/call.h"
#include "op/fields.h"

namespace ssa {

AttentionTensors call_attention(const AttentionCall& call) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ssa::attention", "")
                             .typed<AttentionSchema::AttentionType>();
  return std::apply([&](const auto&... field) { return op.call(call.*field.kMember...); }, kFields);
}

std::vector<at::Tensor> call_attention_backward(const BackwardCall& b) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ssa::attention_backward", "")
                             .typed<AttentionSchema::BackwardType>();
  c10::List<bool> wanted;
  for (const bool each : b.wanted) wanted.push_back(each);
  return std::apply(
      [&](const auto&... field) {
        return op.call(b.out, b.lse, b.grad_out, b.grad_lse, wanted, b.call.*field.kMember...);
      },
      kFields);
}

AttentionResult attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const AttentionOptions& options) {
  const auto [out, lse] = call_attention({options, query, key, value});
  return {out, lse};
}

at::Tensor attention_weights(const at::Tensor& query, const at::Tensor& key,
                             const AttentionOptions& options) {
  TORCH_CHECK_VALUE(!options.cu_query && !options.cu_key,
                    "ssa::attention_weights: packed sequences (cu_query, cu_key) have no common "
                    "matrix of weights; call it for each sequence");
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ssa::attention_weights", "")
                             .typed<WeightsSchema::Type>();
  const AttentionCall call{options, query, key, {}};
  return std::apply([&](const auto&... field) { return op.call(call.*field.kMember...); },
                    kWeightsFields);
}

}  // namespace ssa
