#include "model/device.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "model/dropout_add.h"
#include "op/dropout.h"

namespace ssa {
namespace {

std::string error_of(const std::string& name) {
  try {
    find_device("--device", name);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(Device, WhatIsNotThereIsOneLine) {
  EXPECT_EQ(find_device("--device", "cpu"), torch::Device(torch::kCPU));
  for (const char* name : {"gpu", "cuda:", "cuda:-1", "cuda:01", "cuda:x", "meta", ""}) {
    EXPECT_EQ(error_of(name), fmt::format("--device = \"{}\": expected cpu, cuda or cuda:N", name));
  }
  if (torch::cuda::is_available()) GTEST_SKIP() << "CUDA is there";
  for (const char* name : {"cuda", "cuda:1"}) {
    const std::string error = error_of(name);
    EXPECT_TRUE(error.starts_with(fmt::format("--device = \"{}\": torch ", name))) << error;
    EXPECT_TRUE(error.ends_with("; there is: cpu")) << error;
  }
}

/// What other devices compute with, on the CPU.
TEST(DropoutTwin, KeepsWhatTheKernelsKeep) {
  const auto seed = torch::scalar_tensor(std::int64_t{1} << 40 | 12345, torch::kLong);
  for (const double p : {0.1, 0.5}) {
    EXPECT_TRUE(torch::equal(dropout_keeps(seed, p, 3, 2, 3, 5, 7, 150, torch::kCPU),
                             dropout_keeps_by_tensors(seed, p, 3, 2, 3, 5, 7, 150, torch::kCPU)));
  }
}

TEST(DropoutTwin, IsDropoutAdd) {
  for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
    torch::manual_seed(2);
    const torch::Tensor x = torch::randn({30, 70}).to(type).requires_grad_(),
                        residual = torch::randn({30, 70}), d_out = torch::randn({30, 70});
    torch::manual_seed(7);
    const torch::Tensor fused = dropout_add(x, residual, 0.3);
    torch::manual_seed(7);
    const torch::Tensor twin = residual + seeded_dropout(x, 0.3, draw_dropout_seed());
    EXPECT_TRUE(torch::equal(fused == residual, twin == residual));
    EXPECT_TRUE(torch::allclose(fused, twin, 1e-6, 1e-6));
    const auto gradient = [&](const torch::Tensor& out) {
      return torch::autograd::grad({out}, {x}, {d_out})[0];
    };
    const torch::Tensor of_fused = gradient(fused), of_twin = gradient(twin);
    EXPECT_EQ(of_twin.scalar_type(), type);
    EXPECT_TRUE(torch::allclose(of_fused, of_twin, type == torch::kFloat32 ? 1e-6 : 1e-2, 1e-6));
  }
}

}  // namespace
}  // namespace ssa
