#include "model/product.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <optional>

#include "model/autocast.h"
#include "op/parallel.h"
#include "ssa/few_rows.h"

namespace ssa {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

torch::Tensor narrow(const torch::Tensor& values) { return values.to(torch::kBFloat16); }
torch::Tensor wide(const torch::Tensor& values) { return values.to(torch::kFloat32); }

/// Keeps the narrow factors for the backward pass: half the memory of those that are multiplied.
class WidenedProduct : public torch::autograd::Function<WidenedProduct> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& rows,
                               const torch::Tensor& weight,
                               const std::optional<torch::Tensor>& bias) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const torch::Tensor narrow_rows = narrow(rows), narrow_weight = narrow(weight);
    context->save_for_backward({narrow_rows, narrow_weight});
    context->saved_data["rows"] = rows.scalar_type();
    context->saved_data["weight"] = weight.scalar_type();
    if (bias) context->saved_data["bias"] = bias->scalar_type();
    const torch::Tensor a = wide(narrow_rows), b = wide(narrow_weight);
    return narrow(bias ? torch::addmm(wide(narrow(*bias)), a, b) : torch::mm(a, b));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!torch::GradMode::is_enabled(),
                "product: no second derivative in bfloat16 (float32 has one)");
    const variable_list saved = context->get_saved_variables();
    const torch::Tensor gradient = wide(gradients[0]);
    const auto of = [&](std::size_t input, const char* name, const auto& compute) {
      return context->saved_data.count(name) == 1 && context->needs_input_grad(input)
                 ? compute().to(context->saved_data[name].toScalarType())
                 : torch::Tensor();
    };
    return {of(0, "rows", [&] { return torch::mm(gradient, wide(saved[1]).t()); }),
            of(1, "weight", [&] { return torch::mm(wide(saved[0]).t(), gradient); }),
            of(2, "bias", [&] { return gradient.sum(0); })};
  }
};

bool is_of_bfloat16(const torch::Tensor& rows) {
  return autocast_precision(rows.device()) == Precision::bfloat16;
}

bool is_widened(const torch::Tensor& rows) {
  return rows.is_cpu() && is_of_bfloat16(rows) && !cpu_has_bfloat16_products();
}

/// Whether the kernel for few rows takes this product: of one token after the other, of few texts.
bool has_few_rows(const torch::Tensor& rows, const torch::Tensor& weight,
                  const torch::Tensor& bias) {
  const auto allows = [&](const torch::Tensor& tensor) {
    const bool type = tensor.scalar_type() == torch::kFloat32 ||
                      (tensor.scalar_type() == torch::kBFloat16 && is_of_bfloat16(rows));
    return type && tensor.is_cpu() && !(torch::GradMode::is_enabled() && tensor.requires_grad());
  };
  return rows.size(0) <= kFewRows && allows(rows) && allows(weight) && weight.is_contiguous() &&
         (!bias.defined() || allows(bias));
}

using Kernel = void(const float*, std::int64_t, const float*, std::int64_t, std::int64_t,
                    const float*, float*, const Parallel&);
using NarrowKernel = void(const float*, std::int64_t, const BFloat16*, std::int64_t, std::int64_t,
                          const float*, float*, const Parallel&);

torch::Tensor few_rows(const torch::Tensor& rows, const torch::Tensor& weight,
                       const torch::Tensor& bias, std::int64_t outputs, Kernel* kernel,
                       NarrowKernel* narrow_kernel) {
  const bool narrows = is_of_bfloat16(rows);  // before what hides it
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const auto factor = [&](const torch::Tensor& values) {
    return (narrows ? wide(narrow(values)) : values).contiguous();
  };
  const torch::Tensor a = factor(rows), sum = bias.defined() ? factor(bias) : bias;
  const float* added = bias.defined() ? sum.const_data_ptr<float>() : nullptr;
  torch::Tensor out = torch::empty({rows.size(0), outputs}, a.options());
  const auto run = [&](auto* product, const auto* factors) {
    product(a.const_data_ptr<float>(), a.size(0), factors, a.size(1), outputs, added,
            out.mutable_data_ptr<float>(), at_parallel());
  };
  if (!narrows) {
    run(kernel, weight.const_data_ptr<float>());
    return out;
  }
  // Autocast keeps the copy as long as it lives: half the bytes to read for every token.
  const torch::Tensor half = at::autocast::cached_cast(torch::kBFloat16, weight, torch::kCPU);
  run(narrow_kernel, static_cast<const BFloat16*>(half.const_data_ptr()));
  return narrow(out);
}

}  // namespace

bool cpu_has_bfloat16_products() {
  // PyTorch's own rule for its choice of kernels; builds without oneDNN have neither.
  static const bool has = [] {
    const auto asks =
        c10::Dispatcher::singleton().findSchema({"mkldnn::_is_mkldnn_bf16_supported", ""});
    if (!asks) return false;
    torch::jit::Stack stack;
    asks->callBoxed(stack);
    return stack.at(0).toBool();
  }();
  return has;
}

torch::Tensor product(const torch::Tensor& rows, const torch::Tensor& weight,
                      const torch::Tensor& bias) {
  if (has_few_rows(rows, weight, bias)) {
    return few_rows(rows, weight, bias, weight.size(1), few_rows_product, few_rows_product);
  }
  if (is_widened(rows)) return widened_product(rows, weight, bias);
  return bias.defined() ? torch::addmm(bias, rows, weight) : torch::mm(rows, weight);
}

torch::Tensor product_with_table(const torch::Tensor& rows, const torch::Tensor& table,
                                 const torch::Tensor& bias) {
  if (has_few_rows(rows, table, bias)) {
    return few_rows(rows, table, bias, table.size(0), few_rows_product_with_table,
                    few_rows_product_with_table);
  }
  if (is_widened(rows)) return widened_product(rows, table.t(), bias);
  // Not mm with table.t(): autocast keeps the bfloat16 copy of a weight, but not that of a view,
  // which is made anew for every token.
  return bias.defined() ? torch::linear(rows, table, bias) : torch::linear(rows, table);
}

torch::Tensor widened_product(const torch::Tensor& rows, const torch::Tensor& weight,
                              const torch::Tensor& bias) {
  return WidenedProduct::apply(rows, weight, bias.defined() ? std::optional(bias) : std::nullopt);
}

torch::Tensor rounded_factor(const torch::Tensor& values) {
  return values.is_cpu() && !cpu_has_bfloat16_products() ? wide(narrow(values)) : narrow(values);
}

}  // namespace ssa
