// The gradient of ssa::attention: one node that calls ssa::attention_backward, which recomputes the
// scores from query, key and lse, so that nothing of size length × length is kept.
#include <torch/autograd.h>
#include <torch/types.h>

#include "op/call.h"
#include "op/fields.h"

namespace ssa {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Keeps a call for the backward pass: tensors through save_for_backward (optional ones undefined,
/// lists at their place), the other arguments by name. restore_call undoes it.
void save_call(AutogradContext* context, const AttentionCall& call, const at::Tensor& out,
               const at::Tensor& lse) {
  variable_list tensors{out, lse};
  visit_fields(call, [&]<class Value>(std::string_view name, const Value& value) {
    if constexpr (std::is_same_v<Value, at::Tensor>) {
      tensors.push_back(value);
    } else if constexpr (std::is_same_v<Value, OptionalTensor>) {
      tensors.push_back(value.value_or(at::Tensor()));
    } else if constexpr (std::is_same_v<Value, std::vector<at::Tensor>>) {
      tensors.insert(tensors.end(), value.begin(), value.end());
      context->saved_data[std::string(name)] = static_cast<std::int64_t>(value.size());
    } else {
      context->saved_data[std::string(name)] = value;
    }
  });
  context->save_for_backward(tensors);
}

BackwardCall restore_call(AutogradContext* context) {
  const variable_list tensors = context->get_saved_variables();
  auto next = tensors.begin();
  BackwardCall backward;
  backward.out = *next++;
  backward.lse = *next++;
  visit_fields(backward.call, [&]<class Value>(std::string_view name, Value& value) {
    if constexpr (std::is_same_v<Value, at::Tensor>) {
      value = *next++;
    } else if constexpr (std::is_same_v<Value, OptionalTensor>) {
      if (next->defined()) value = *next;
      ++next;
    } else if constexpr (std::is_same_v<Value, std::vector<at::Tensor>>) {
      const auto end = next + context->saved_data.at(std::string(name)).toInt();
      value.assign(next, end);
      next = end;
    } else {
      value = context->saved_data.at(std::string(name)).to<Value>();
    }
  });
  return backward;
}

struct AttentionNode : torch::autograd::Function<AttentionNode> {
  /// The list is differentiable_inputs(call), for autograd to see.
  static variable_list forward(AutogradContext* context, at::TensorList,
                               const AttentionCall& call) {
    context->set_materialize_grads(false);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [out, lse] = call_attention(call);
    save_call(context, call, out, lse);
    return {out, lse};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    BackwardCall backward = restore_call(context);
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
  // Drawn here, so that the backward pass has the same one. While tracing (torch.compile,
  // torch.export) the draw is a node of the graph: a new seed every time it runs.
  if (call.dropout > 0 && !call.seed) call.seed = resolve_seed(call);
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
  library.impl("attention", AttentionSchema::attention<attention_autograd>);
  library.impl("attention_backward", AttentionSchema::backward<backward_autograd>);
}

}  // namespace
}  // namespace ssa
