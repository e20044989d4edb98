#include "model/product.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/torch.h>

#include <optional>

#include "model/autocast.h"

namespace ssa {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Rows up to which ATen's bfloat16 loops beat widening of a whole (outputs, inputs) table: 33
/// against 190 ms at 4 rows and 50 257 outputs, 134 against 197 at 16.
constexpr std::int64_t kFewRows = 16;

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

bool is_widened(const torch::Tensor& rows) {
  return rows.is_cpu() && autocast_precision(rows.device()) == Precision::bfloat16 &&
         !cpu_has_bfloat16_products();
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
  if (is_widened(rows)) return widened_product(rows, weight, bias);
  return bias.defined() ? torch::addmm(bias, rows, weight) : torch::mm(rows, weight);
}

torch::Tensor product_with_table(const torch::Tensor& rows, const torch::Tensor& table,
                                 const torch::Tensor& bias) {
  if (is_widened(rows) && rows.size(0) > kFewRows) return widened_product(rows, table.t(), bias);
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
