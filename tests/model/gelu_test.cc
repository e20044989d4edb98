#include "model/gelu.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace ssa {
namespace {

struct GeluResults {
  torch::Tensor out, d_rows, d_bias;
};

GeluResults differentiated(torch::Tensor rows, torch::Tensor bias, const torch::Tensor& d_out,
                           torch::Tensor (*function)(const torch::Tensor&, const torch::Tensor&)) {
  rows = rows.detach().clone().requires_grad_();
  bias = bias.detach().clone().requires_grad_();
  const torch::Tensor out = function(rows, bias);
  out.backward(d_out);
  return {out.detach(), rows.grad(), bias.grad()};
}

torch::Tensor aten(const torch::Tensor& rows, const torch::Tensor& bias) {
  return torch::gelu(rows + bias, "tanh");
}

double largest_distance(const torch::Tensor& a, const torch::Tensor& b) {
  return (a.to(torch::kFloat64) - b.to(torch::kFloat64)).abs().max().item<double>();
}

// The error rule: at most twice (gradients three times) ATen's error, plus 4 ε of the largest
// value.
TEST(BiasGelu, IsAsAccurateAsAten) {
  torch::manual_seed(1);
  for (const double spread : {0.01, 1.0, 5.0}) {
    const auto rows = spread * torch::randn({50, 37}), bias = torch::randn({37});
    const auto d_out = torch::randn({50, 37});
    const auto ours = differentiated(rows, bias, d_out, bias_gelu);
    const auto eager = differentiated(rows, bias, d_out, aten);
    const auto truth = differentiated(rows.to(torch::kFloat64), bias.to(torch::kFloat64),
                                      d_out.to(torch::kFloat64), aten);
    const auto check = [](const torch::Tensor& mine, const torch::Tensor& theirs,
                          const torch::Tensor& exact, double times) {
      const double floor =
          4 * std::numeric_limits<float>::epsilon() * exact.abs().max().item<double>();
      EXPECT_LE(largest_distance(mine, exact), times * largest_distance(theirs, exact) + floor);
    };
    check(ours.out, eager.out, truth.out, 2);
    check(ours.d_rows, eager.d_rows, truth.d_rows, 3);
    check(ours.d_bias, eager.d_bias, truth.d_bias, 3);
  }
}

TEST(BiasGelu, ReadsAnyStrides) {
  const auto rows = torch::randn({7, 9}).t(), bias = torch::randn({14}).slice(0, 0, 14, 2);
  const auto d_out = torch::ones({1}).expand({9, 7});
  const auto strided = differentiated(rows, bias, d_out, bias_gelu);
  const auto dense =
      differentiated(rows.contiguous(), bias.contiguous(), d_out.contiguous(), bias_gelu);
  EXPECT_TRUE(torch::equal(strided.out, dense.out));
  EXPECT_TRUE(torch::equal(strided.d_rows, dense.d_rows));
}

TEST(BiasGelu, SecondDerivativesAreRightOrRefused) {
  const auto input = torch::randn({2, 3}).requires_grad_();
  const auto out = bias_gelu(input, torch::zeros({3}));
  EXPECT_THROW(torch::autograd::grad({out.sum()}, {input}, {}, true, /*create_graph=*/true),
               c10::Error);
  const auto exact = torch::randn({2, 3}, torch::kFloat64).requires_grad_();
  const auto first = torch::autograd::grad(
      {bias_gelu(exact, torch::zeros({3}, torch::kFloat64)).sum()}, {exact}, {}, true, true)[0];
  EXPECT_TRUE(first.requires_grad());
}

TEST(BiasGelu, WrongShapesAreRefused) {
  EXPECT_THROW(bias_gelu(torch::zeros({2, 3}), torch::zeros({4})), c10::Error);
  EXPECT_THROW(bias_gelu(torch::zeros({6}), torch::zeros({6})), c10::Error);
}

}  // namespace
}  // namespace ssa
