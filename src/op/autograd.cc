// The gradient of ssa::attention: one node that calls ssa::attention_backward, which recomputes the
// scores from query, key and lse, so that nothing of size length × length is kept.
#include <torch/torch.h>

#include "op/call.h"

namespace ssa {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The tensors of a call, optional ones undefined; restore_tensors undoes it.
variable_list saved_tensors(const AttentionCall& call, const at::Tensor& out,
                            const at::Tensor& lse) {
  variable_list tensors{call.query,
                        call.key,
                        call.value,
                        call.mask.value_or(at::Tensor()),
                        call.bias.value_or(at::Tensor()),
                        call.key_lengths.value_or(at::Tensor()),
                        call.alibi_slopes.value_or(at::Tensor()),
                        call.cu_query.value_or(at::Tensor()),
                        call.cu_key.value_or(at::Tensor()),
                        out,
                        lse};
  tensors.insert(tensors.end(), call.params.begin(), call.params.end());
  return tensors;
}

void restore_tensors(const variable_list& tensors, BackwardCall& backward) {
  const auto optional = [](const at::Tensor& t) {
    return t.defined() ? OptionalTensor(t) : std::nullopt;
  };
  AttentionCall& call = backward.call;
  call.query = tensors[0];
  call.key = tensors[1];
  call.value = tensors[2];
  call.mask = optional(tensors[3]);
  call.bias = optional(tensors[4]);
  call.key_lengths = optional(tensors[5]);
  call.alibi_slopes = optional(tensors[6]);
  call.cu_query = optional(tensors[7]);
  call.cu_key = optional(tensors[8]);
  backward.out = tensors[9];
  backward.lse = tensors[10];
  call.params.assign(tensors.begin() + 11, tensors.end());
}

struct AttentionNode : torch::autograd::Function<AttentionNode> {
  /// The list is differentiable_inputs(call), for autograd to see.
  static variable_list forward(AutogradContext* context, at::TensorList,
                               const AttentionCall& call) {
    context->set_materialize_grads(false);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [out, lse] = call_attention(call);
    context->save_for_backward(saved_tensors(call, out, lse));
    auto& saved = context->saved_data;
    saved["score"] = call.score;
    saved["causal"] = call.causal;
    saved["window"] = call.window;
    saved["scale"] = call.scale;
    saved["dropout"] = call.dropout;
    saved["seed"] = call.seed;
    saved["kernel"] = call.kernel;
    return {out, lse};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    auto& saved = context->saved_data;
    BackwardCall backward;
    restore_tensors(context->get_saved_variables(), backward);
    backward.call.score = saved["score"].toStringRef();
    backward.call.causal = saved["causal"].toBool();
    backward.call.window = saved["window"].toOptional<std::int64_t>();
    backward.call.scale = saved["scale"].toOptional<double>();
    backward.call.dropout = saved["dropout"].toDouble();
    backward.call.seed = saved["seed"].toOptional<std::int64_t>();
    backward.call.kernel = saved["kernel"].toStringRef();
    const std::size_t inputs = differentiable_inputs(backward.call).size();
    variable_list result(inputs + 1);  // the last one stands for the argument that is no tensor
    if (!grads[0].defined() && !grads[1].defined()) return result;
    if (grads[0].defined()) backward.grad_out = grads[0];
    if (grads[1].defined()) backward.grad_lse = grads[1];
    for (std::size_t i = 0; i < inputs; ++i)
      backward.wanted.push_back(context->needs_input_grad(i));
    const std::vector<at::Tensor> wanted = call_attention_backward(backward);
    auto next = wanted.begin();
    for (std::size_t i = 0; i < inputs; ++i) {
      if (backward.wanted[i]) result[i] = *next++;
    }
    return result;
  }
};

/// The first derivative as a node of its own, so that a second one meets a clear refusal.
struct FirstDerivativeNode : torch::autograd::Function<FirstDerivativeNode> {
  static variable_list forward(AutogradContext*, at::TensorList, const BackwardCall& backward) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return call_attention_backward(backward);
  }

  static variable_list backward(AutogradContext*, const variable_list&) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false,
        "ssa::attention has no second derivative (that of SSA jumps at score 0): call backward or "
        "grad without create_graph, or do not differentiate its gradients");
  }
};

AttentionTensors attention_autograd(const AttentionCall& given) {
  AttentionCall call = given;
  if (call.dropout > 0 && !call.seed) {
    TORCH_CHECK_VALUE(
        !call.query.is_meta() && !call.query.unsafeGetTensorImpl()->is_python_dispatch(),
        "ssa::attention: dropout needs a seed while tracing (torch.compile, torch.export), "
        "or one drawn seed would be frozen into the graph; pass seed");
    call.seed = resolve_seed(call);
  }
  const variable_list inputs = differentiable_inputs(call);
  const variable_list results = AttentionNode::apply(at::TensorList(inputs), call);
  return {results[0], results[1]};
}

std::vector<at::Tensor> backward_autograd(const BackwardCall& backward) {
  variable_list inputs = differentiable_inputs(backward.call);
  if (backward.grad_out) inputs.push_back(*backward.grad_out);
  if (backward.grad_lse) inputs.push_back(*backward.grad_lse);
  return FirstDerivativeNode::apply(at::TensorList(inputs), backward);
}

TORCH_LIBRARY_IMPL(ssa, Autograd, library) {
  library.impl("attention", unpacked<attention_autograd>);
  library.impl("attention_backward", unpacked_backward<backward_autograd>);
}

}  // namespace
}  // namespace ssa
