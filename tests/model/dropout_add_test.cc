#include "model/dropout_add.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace ssa {
namespace {

struct DropoutResults {
  torch::Tensor out, d_x, d_residual;
};

DropoutResults differentiated(torch::Tensor x, torch::Tensor residual, double p) {
  torch::manual_seed(5);
  x = x.detach().clone().requires_grad_();
  residual = residual.detach().clone().requires_grad_();
  const torch::Tensor out = dropout_add(x, residual, p);
  out.backward(torch::arange(1, out.numel() + 1).view_as(out).to(out.scalar_type()));
  return {out.detach(), x.grad(), residual.grad()};
}

TEST(DropoutAdd, ForwardAndBackwardUseOneMask) {
  for (const auto type : {torch::kFloat32, torch::kBFloat16, torch::kFloat64}) {
    const torch::Tensor x = torch::randn({30, 50}).to(type),
                        residual = torch::randn({30, 50}).to(
                            type == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32);
    const DropoutResults got = differentiated(x, residual, 0.25);
    const torch::Tensor kept = got.out != residual;
    const double share = kept.to(torch::kDouble).mean().item<double>();
    EXPECT_NEAR(share, 0.75, 0.056);  // five standard errors of 1500
    const torch::Tensor d_out = torch::arange(1, 1501).view({30, 50}).to(torch::kDouble);
    const torch::Tensor factor = kept.to(torch::kDouble) / 0.75;
    EXPECT_TRUE(torch::allclose(got.out.to(torch::kDouble),
                                residual.to(torch::kDouble) + factor * x.to(torch::kDouble), 1e-6,
                                1e-6));
    EXPECT_TRUE(torch::allclose(got.d_x.to(torch::kDouble), factor * d_out,
                                type == torch::kBFloat16 ? 4e-3 : 1e-6));
    EXPECT_TRUE(torch::equal(got.d_residual.to(torch::kDouble), d_out));
    EXPECT_EQ(got.d_x.scalar_type(), type);
  }
}

TEST(DropoutAdd, ReadsAnyStridesAndDrawsFromTorchsGenerator) {
  const torch::Tensor x = torch::randn({50, 30}).t(),
                      residual = torch::randn({1, 50}).expand({30, 50});
  const DropoutResults strided = differentiated(x, residual, 0.5);
  const DropoutResults dense = differentiated(x.contiguous(), residual.contiguous(), 0.5);
  EXPECT_TRUE(torch::equal(strided.out, dense.out));
  torch::manual_seed(6);
  EXPECT_FALSE(torch::equal(dropout_add(x, residual, 0.5), dense.out));
}

TEST(DropoutAdd, RefusesOtherShapes) {
  EXPECT_THROW(dropout_add(torch::ones({2, 3}), torch::ones({2, 4}), 0.5), c10::Error);
  EXPECT_THROW(dropout_add(torch::ones({6}), torch::ones({6}), 0.5), c10::Error);
}

}  // namespace
}  // namespace ssa
