#include "model/gelu.h"

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "op/parallel.h"
#include "ssa/gelu.h"

namespace ssa {
namespace {

class BiasGelu : public torch::autograd::Function<BiasGelu> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& rows,
                               const torch::Tensor& bias) {
    context->save_for_backward({rows, bias});
    torch::Tensor out = torch::empty_like(rows);
    bias_gelu_forward(rows.const_data_ptr<float>(), bias.const_data_ptr<float>(),
                      out.mutable_data_ptr<float>(), rows.size(0), rows.size(1), at_parallel());
    return out;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               const torch::autograd::tensor_list& d_outs) {
    TORCH_CHECK(!torch::GradMode::is_enabled(),
                "bias_gelu: no second derivative in float32 (float64 has one)");
    const auto saved = context->get_saved_variables();
    const torch::Tensor &rows = saved[0], &bias = saved[1], d_out = d_outs[0].contiguous();
    const torch::Tensor d_rows = torch::empty_like(rows);
    bias_gelu_backward(rows.const_data_ptr<float>(), bias.const_data_ptr<float>(),
                       d_out.const_data_ptr<float>(), d_rows.mutable_data_ptr<float>(),
                       rows.size(0), rows.size(1), at_parallel());
    return {d_rows, d_rows.sum(0)};
  }
};

}  // namespace

torch::Tensor bias_gelu(const torch::Tensor& rows, const torch::Tensor& bias) {
  if (rows.scalar_type() != torch::kFloat32 || !rows.device().is_cpu()) {
    return torch::gelu(rows + bias, "tanh");
  }
  TORCH_CHECK(rows.dim() == 2 && bias.dim() == 1 && bias.size(0) == rows.size(1) &&
                  bias.scalar_type() == torch::kFloat32,
              "bias_gelu: rows of shape ", rows.sizes(), " and a bias of shape ", bias.sizes());
  return BiasGelu::apply(rows.contiguous(), bias.contiguous());
}

}  // namespace ssa
