// SSA attention in a program with LibTorch: the loss's gradients by the query and by the score's
// parameter n.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdio>

#include "op/attention.h"

int main() {
  at::manual_seed(0);
  at::Tensor query = at::randn({2, 4, 16, 32}).requires_grad_();  // batch, heads, length, dimension
  const at::Tensor key =
      at::randn({2, 2, 16, 32});  // 2 heads of keys and values: grouped-query attention
  const at::Tensor value = at::randn({2, 2, 16, 32});
  at::Tensor n = at::full({4}, 1.5).requires_grad_(), b = at::full({4}, 0.8);

  ssa::AttentionOptions options;
  options.score = "ssa";
  options.params = {n, b};
  options.causal = true;
  const ssa::AttentionResult result = ssa::attention(query, key, value, options);
  result.out.square().sum().backward();

  std::printf("path %s\n", ssa::last_attention_path().c_str());
  std::printf("out %.4f\n", result.out.norm().item<double>());
  std::printf("d_query %.4f\n", query.grad().norm().item<double>());
  std::printf("d_n %.4f\n", n.grad().norm().item<double>());
}
