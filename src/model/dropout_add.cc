#include "model/dropout_add.h"

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "op/dropout.h"
#include "op/parallel.h"
#include "ssa/dropout_add.h"

namespace ssa {
namespace {

const BFloat16* bfloat16_of(const torch::Tensor& tensor) {
  return reinterpret_cast<const BFloat16*>(tensor.const_data_ptr<at::BFloat16>());
}

class DropoutAdd : public torch::autograd::Function<DropoutAdd> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& residual, double p, std::int64_t seed) {
    context->saved_data["p"] = p;
    context->saved_data["seed"] = seed;
    context->saved_data["narrow"] = x.scalar_type() == torch::kBFloat16;
    torch::Tensor out = torch::empty_like(residual);
    const auto run = [&](const auto* data) {
      dropout_add_forward(data, residual.const_data_ptr<float>(), out.mutable_data_ptr<float>(),
                          x.size(0), x.size(1), p, static_cast<std::uint64_t>(seed), at_parallel());
    };
    x.scalar_type() == torch::kBFloat16 ? run(bfloat16_of(x)) : run(x.const_data_ptr<float>());
    return out;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               const torch::autograd::tensor_list& d_outs) {
    TORCH_CHECK(!torch::GradMode::is_enabled(),
                "dropout_add: no second derivative in float32 (float64 has one)");
    const torch::Tensor d_out = d_outs[0].contiguous();
    const bool narrow = context->saved_data["narrow"].toBool();
    const torch::Tensor d_x = torch::empty_like(d_out, narrow ? torch::kBFloat16 : torch::kFloat32);
    const auto run = [&](auto* data) {
      dropout_add_backward(d_out.const_data_ptr<float>(), data, d_out.size(0), d_out.size(1),
                           context->saved_data["p"].toDouble(),
                           static_cast<std::uint64_t>(context->saved_data["seed"].toInt()),
                           at_parallel());
    };
    narrow ? run(reinterpret_cast<BFloat16*>(d_x.mutable_data_ptr<at::BFloat16>()))
           : run(d_x.mutable_data_ptr<float>());
    return {d_x, d_outs[0], {}, {}};
  }
};

}  // namespace

torch::Tensor seeded_dropout(const torch::Tensor& x, double p, std::int64_t seed) {
  TORCH_CHECK(x.dim() == 2, "seeded_dropout: x of shape ", x.sizes());
  const auto type = x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  const torch::Tensor keeps = dropout_keeps_by_tensors(torch::scalar_tensor(seed, torch::kLong), p,
                                                       0, 1, 1, 0, x.size(0), x.size(1), x.device())
                                  .view(x.sizes());
  return x.to(type) * keeps.to(type).mul_(1 / (1 - p));
}

torch::Tensor apply_dropout(const torch::Tensor& x, double p, bool training) {
  if (!training || p == 0) return x;
  if (x.is_cpu()) return torch::dropout(x, p, /*train=*/true);
  return seeded_dropout(x, p, draw_dropout_seed()).to(x.scalar_type());
}

torch::Tensor dropout_add(const torch::Tensor& x, const torch::Tensor& residual, double p) {
  if (!x.is_cpu()) return residual + seeded_dropout(x, p, draw_dropout_seed());
  const bool known = x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kBFloat16;
  if (!known || residual.scalar_type() != torch::kFloat32) {
    return residual + torch::dropout(x, p, /*train=*/true);
  }
  TORCH_CHECK(x.dim() == 2 && x.sizes() == residual.sizes(), "dropout_add: x of shape ", x.sizes(),
              " and a residual of shape ", residual.sizes());
  return DropoutAdd::apply(x.contiguous(), residual.contiguous(), p, draw_dropout_seed());
}

}  // namespace ssa
