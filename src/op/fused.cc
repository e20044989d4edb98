#include "op/fused.h"

#include <torch/types.h>

#include "op/parallel.h"
#include "ssa/attention.h"

namespace ssa {
namespace {

/// T, as the kernels call it, is the tensor's own type.
template <class T>
View4<const T> view(const at::Tensor& t) {
  return {static_cast<const T*>(t.const_data_ptr()),
          {t.stride(0), t.stride(1), t.stride(2), t.stride(3)}};
}

template <class T>
View4<T> mutable_view(const at::Tensor& t) {
  return {static_cast<T*>(t.data_ptr()), {t.stride(0), t.stride(1), t.stride(2), t.stride(3)}};
}

/// As (batch, query heads, query length, key length), strides 0 where it broadcasts.
at::Tensor broadcast(const AttentionCall& call, const at::Tensor& tensor) {
  return as_rank4(tensor).expand(
      {call.query.size(0), call.query.size(1), call.query.size(2), call.key.size(2)});
}

std::int64_t head_stride(const at::Tensor& param) {
  return param.numel() == 1 ? 0 : param.stride(0);
}

/// Tensors of lengths as the kernels want them.
struct Lengths {
  at::Tensor keys, cu_query, cu_key;
};

/// The kernels' view of the call. Points into its tensors and into `lengths`.
template <class T>
AttentionArgs<T> kernel_args(const AttentionCall& call, Lengths& lengths) {
  AttentionArgs<T> args;
  args.score = call.score;
  args.batch = call.query.size(0);
  args.query_heads = call.query.size(1);
  args.kv_heads = call.key.size(1);
  args.query_length = call.query.size(2);
  args.key_length = call.key.size(2);
  args.qk_dim = call.query.size(3);
  args.v_dim = call.value.size(3);
  args.scale = static_cast<float>(scale_of(call));
  args.causal = call.causal;
  args.window = call.window.value_or(0);
  args.dropout = call.dropout;
  args.seed = call.seed ? static_cast<std::uint64_t>(call.seed->item<std::int64_t>()) : 0;
  args.query = view<T>(call.query);
  args.key = view<T>(call.key);
  args.value = view<T>(call.value);
  for (std::size_t i = 0; i < call.params.size(); ++i) {
    args.params[i] = {call.params[i].const_data_ptr<float>(), head_stride(call.params[i])};
  }
  if (call.mask) {
    const at::Tensor mask = broadcast(call, *call.mask);
    args.mask = {mask.const_data_ptr<bool>(),
                 {mask.stride(0), mask.stride(1), mask.stride(2), mask.stride(3)}};
  }
  if (call.bias) args.bias = view<float>(broadcast(call, *call.bias));
  if (call.key_lengths) {
    lengths.keys = call.key_lengths->contiguous();
    args.key_lengths = lengths.keys.const_data_ptr<std::int64_t>();
  }
  if (call.alibi_slopes) {
    args.alibi_slopes = {call.alibi_slopes->const_data_ptr<float>(),
                         head_stride(*call.alibi_slopes)};
  }
  if (call.cu_query) {
    lengths.cu_query = cumulative(*call.cu_query);
    lengths.cu_key = cumulative(*call.cu_key);
    args.cu_query = lengths.cu_query.const_data_ptr<std::int64_t>();
    args.cu_key = lengths.cu_key.const_data_ptr<std::int64_t>();
    args.sequences = lengths.cu_query.numel() - 1;
  }
  return args;
}

template <class T>
void forward_of(const AttentionCall& call, const at::Tensor& out, const at::Tensor& lse) {
  Lengths lengths;
  attention_forward(kernel_args<T>(call, lengths), mutable_view<T>(out), lse.data_ptr<float>(),
                    at_parallel());
}

template <class T>
std::vector<at::Tensor> backward_of(const BackwardCall& backward) {
  const AttentionCall& call = backward.call;
  std::vector<at::Tensor> results;
  auto next = backward.wanted.begin();
  // What broadcasts has elements, and gradients, also where the problem has none.
  const bool empty = call.query.numel() == 0 || call.key.numel() == 0;
  const auto wanted = [&](const at::Tensor& like) {  // undefined = not wanted
    if (!*next++) return at::Tensor();
    return results.emplace_back(empty ? at::zeros_like(like) : at::empty_like(like));
  };

  AttentionGradients<T> gradients;
  for (const auto& [input, slot] :
       {std::pair{&call.query, &gradients.query}, std::pair{&call.key, &gradients.key},
        std::pair{&call.value, &gradients.value}}) {
    if (const at::Tensor gradient = wanted(*input); gradient.defined())
      *slot = mutable_view<T>(gradient);
  }
  for (std::size_t i = 0; i < call.params.size(); ++i) {
    if (const at::Tensor gradient = wanted(call.params[i]); gradient.defined()) {
      gradients.params[i] = {gradient.data_ptr<float>(), head_stride(gradient)};
    }
  }
  if (call.bias) {
    if (const at::Tensor gradient = wanted(*call.bias); gradient.defined()) {
      gradients.bias = mutable_view<float>(broadcast(call, gradient));
    }
  }

  Lengths lengths;
  const at::Tensor lse = backward.lse.contiguous();
  const at::Tensor grad_lse = backward.grad_lse ? backward.grad_lse->contiguous() : at::Tensor();
  const at::Tensor grad_out = backward.grad_out
                                  ? *backward.grad_out
                                  : at::zeros({1}, call.query.options()).expand_as(backward.out);
  attention_backward(kernel_args<T>(call, lengths), view<T>(backward.out),
                     lse.const_data_ptr<float>(), view<T>(grad_out),
                     grad_lse.defined() ? grad_lse.const_data_ptr<float>() : nullptr, gradients,
                     at_parallel());
  return results;
}

bool is_bfloat16(const AttentionCall& call) { return call.query.scalar_type() == at::kBFloat16; }
bool is_float16(const AttentionCall& call) { return call.query.scalar_type() == at::kHalf; }

// There are no kernels of float16: it is widened to float, and the results rounded.

AttentionCall widened(const AttentionCall& call) {
  AttentionCall wide = call;
  for (at::Tensor* tensor : {&wide.query, &wide.key, &wide.value}) *tensor = tensor->to(at::kFloat);
  return wide;
}

void widened_forward(const AttentionCall& call, const at::Tensor& out, const at::Tensor& lse) {
  const at::Tensor wide = at::empty_like(out, out.options().dtype(at::kFloat));
  forward_of<float>(widened(call), wide, lse);
  out.copy_(wide);
}

std::vector<at::Tensor> widened_backward(const BackwardCall& backward) {
  BackwardCall wide = backward;
  wide.call = widened(backward.call);
  wide.out = backward.out.to(at::kFloat);
  if (backward.grad_out) wide.grad_out = backward.grad_out->to(at::kFloat);
  std::vector<at::Tensor> gradients = backward_of<float>(wide);
  const std::vector<at::Tensor> inputs = differentiable_inputs(backward.call);
  auto gradient = gradients.begin();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!backward.wanted[i]) continue;
    // Strided as the input, which is what backward_meta promises.
    if (i < 3) *gradient = at::empty_like(inputs[i]).copy_(*gradient);
    ++gradient;
  }
  return gradients;
}

}  // namespace

void fused_forward(const AttentionCall& call, const at::Tensor& out, const at::Tensor& lse) {
  if (is_float16(call)) return widened_forward(call, out, lse);
  is_bfloat16(call) ? forward_of<BFloat16>(call, out, lse) : forward_of<float>(call, out, lse);
}

std::vector<at::Tensor> fused_backward(const BackwardCall& backward) {
  if (is_float16(backward.call)) return widened_backward(backward);
  return is_bfloat16(backward.call) ? backward_of<BFloat16>(backward)
                                    : backward_of<float>(backward);
}

}  // namespace ssa
