#include "model/product.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <array>

#include "config/config.h"
#include "model/autocast.h"

namespace ssa {
namespace {

struct Results {
  torch::Tensor out, d_rows, d_weight, d_bias;
};

using Product = torch::Tensor(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&);

Results differentiated(torch::Tensor rows, torch::Tensor weight, torch::Tensor bias,
                       const torch::Tensor& d_out, Product* function) {
  rows = rows.detach().clone().requires_grad_();
  weight = weight.detach().clone().requires_grad_();
  bias = bias.detach().clone().requires_grad_();
  const torch::Tensor out = function(rows, weight, bias);
  out.backward(d_out);
  return {out.detach(), rows.grad(), weight.grad(), bias.grad()};
}

torch::Tensor exact(const torch::Tensor& rows, const torch::Tensor& weight,
                    const torch::Tensor& bias) {
  return torch::addmm(bias, rows, weight);
}

torch::Tensor rounded(const torch::Tensor& values) {
  return values.to(torch::kBFloat16).to(torch::kFloat64);
}

/// Within so many halves of bfloat16's last place of the truth, or of the sums' rounding near 0.
void expect_near(const torch::Tensor& found, const torch::Tensor& truth, double half_places) {
  const torch::Tensor bound = half_places * truth.abs() / 256 + 1e-4;
  const torch::Tensor off = (found.to(torch::kFloat64) - truth).abs();
  EXPECT_TRUE((off <= bound).all().item<bool>()) << (off - bound).max();
}

// What is multiplied is the rounded numbers; the result is rounded once, sums are of float32.
TEST(WidenedProduct, IsTheProductOfTheRoundedNumbers) {
  torch::manual_seed(1);
  const auto rows = torch::randn({70, 33}), weight = torch::randn({33, 41});
  const auto bias = torch::randn({41});
  const auto d_out = torch::randn({70, 41}).to(torch::kBFloat16);
  const Results found = differentiated(rows, weight, bias, d_out, widened_product);
  const Results truth = differentiated(rounded(rows), rounded(weight), rounded(bias),
                                       d_out.to(torch::kFloat64), exact);
  EXPECT_EQ(found.out.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(found.d_weight.scalar_type(), torch::kFloat32);
  expect_near(found.out, truth.out, 1.01);
  expect_near(found.d_rows, truth.d_rows, 0.01);  // float32 as the rows: not rounded again
  expect_near(found.d_weight, truth.d_weight, 0.01);
  expect_near(found.d_bias, truth.d_bias, 0.01);
  // Rounding shows: the product of the numbers as they are lies farther off.
  EXPECT_GT(
      (torch::addmm(bias, rows, weight).to(torch::kFloat64) - truth.out).abs().max().item<double>(),
      0.01);
}

TEST(WidenedProduct, GivesGradientsOnlyWhereTheyAreAskedFor) {
  const auto rows = torch::randn({4, 3}).to(torch::kBFloat16).requires_grad_();
  const auto weight = torch::randn({3, 2});
  widened_product(rows, weight).sum().backward();
  EXPECT_EQ(rows.grad().scalar_type(), torch::kBFloat16);
  EXPECT_FALSE(weight.grad().defined());
}

TEST(WidenedProduct, RefusesSecondDerivatives) {
  const auto rows = torch::randn({4, 3}).requires_grad_(), weight = torch::randn({3, 2});
  const auto sum = widened_product(rows, weight).sum();
  EXPECT_THROW(torch::autograd::grad({sum}, {rows}, {}, true, /*create_graph=*/true), c10::Error);
}

// Whichever of the two ways this CPU takes.
TEST(Product, IsOfBfloat16UnderAutocastOnly) {
  torch::manual_seed(2);
  const auto rows = torch::randn({40, 24}), weight = torch::randn({24, 30});
  const auto bias = torch::randn({30});
  const torch::Tensor truth = exact(rounded(rows), rounded(weight), rounded(bias));
  const Autocast off(Precision::float32, torch::kCPU);
  EXPECT_EQ(product(rows, weight, bias).scalar_type(), torch::kFloat32);
  const Autocast on(Precision::bfloat16, torch::kCPU);
  for (const std::int64_t count : {1, 40}) {
    const auto some = rows.narrow(0, 0, count);
    for (const auto& out :
         {product(some, weight, bias), product_with_table(some, weight.t().contiguous(), bias)}) {
      EXPECT_EQ(out.scalar_type(), torch::kBFloat16);
      expect_near(out, truth.narrow(0, 0, count), 2.01);  // ATen may round before the bias is added
    }
  }
}

// As generation calls it: no gradient wanted, rows and weights laid out in any way, one text or
// some.
TEST(Product, OfFewRowsIsTheSameForEveryNumberOfThem) {
  torch::manual_seed(3);
  const auto all = torch::randn({24, 16}).t();  // (16, 24), not contiguous
  const auto weight = torch::randn({24, 30}).requires_grad_(), bias = torch::randn({30});
  const auto table = weight.detach().t().contiguous().requires_grad_();
  for (const Precision precision : {Precision::float32, Precision::bfloat16}) {
    const Autocast autocast(precision, torch::kCPU);
    const bool narrow = precision == Precision::bfloat16;
    const auto as_multiplied = [&](const torch::Tensor& values) {
      return narrow ? rounded(values) : values.to(torch::kFloat64);
    };
    const torch::Tensor truth =
        exact(as_multiplied(all), as_multiplied(weight), as_multiplied(bias)).detach();
    const auto both = [&](const torch::Tensor& rows) {
      return std::array{product(rows, weight, bias), product_with_table(rows, table, bias)};
    };
    const auto with_gradient = both(all);
    const torch::NoGradGuard no_gradient;
    const auto together = both(all);
    for (std::size_t way = 0; way < 2; ++way) {
      EXPECT_TRUE(with_gradient[way].requires_grad());
      EXPECT_FALSE(together[way].requires_grad());
      EXPECT_EQ(together[way].scalar_type(), narrow ? torch::kBFloat16 : torch::kFloat32);
      expect_near(together[way], truth, narrow ? 1.01 : 0.01);
      for (std::int64_t i = 0; i < 16; ++i) {
        const auto alone = both(all.narrow(0, i, 1))[way];
        EXPECT_TRUE(torch::equal(alone[0], together[way][i])) << i;
      }
    }
    // A layout that the kernel does not read, and a type that it does not have.
    expect_near(product(all, table.t(), bias), truth, narrow ? 2.01 : 0.01);
  }
  const torch::NoGradGuard no_gradient;
  EXPECT_EQ(product(all.to(torch::kFloat64), weight.to(torch::kFloat64)).scalar_type(),
            torch::kFloat64);
}

}  // namespace
}  // namespace ssa
