#include "ssa/gelu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "ssa/random.h"

namespace ssa {
namespace {

constexpr double kFactor = 0.79788456080286535588;  // √(2/π)

double gelu(double z) { return z / 2 * (1 + std::tanh(kFactor * (z + 0.044715 * z * z * z))); }

double slope(double z) {
  const double t = std::tanh(kFactor * (z + 0.044715 * z * z * z));
  return (1 + t) / 2 + z / 2 * (1 - t * t) * kFactor * (1 + 3 * 0.044715 * z * z);
}

/// The plain formulas in float: what the error is compared with.
float plain_gelu(float z) {
  const auto factor = static_cast<float>(kFactor);
  return 0.5F * z * (1 + std::tanh(factor * (z + 0.044715F * z * z * z)));
}
float plain_slope(float z) {
  const auto factor = static_cast<float>(kFactor);
  const float t = std::tanh(factor * (z + 0.044715F * z * z * z));
  return 0.5F * (1 + t) + 0.5F * z * (1 - t * t) * factor * (1 + 3 * 0.044715F * z * z);
}

/// Largest error over z of every magnitude, ours and the plain formula's.
TEST(Gelu, IsAsAccurateAsThePlainFormula) {
  std::vector<float> z;
  for (float magnitude = 1e-30F; magnitude < 1e30F; magnitude *= 1.003F) {
    z.push_back(magnitude);
    z.push_back(-magnitude);
  }
  const auto count = static_cast<std::int64_t>(z.size());
  const std::vector<float> no_bias(z.size(), 0.0F), ones(z.size(), 1.0F);
  std::vector<float> value(z.size()), derivative(z.size());
  bias_gelu_forward(z.data(), no_bias.data(), value.data(), 1, count, serial());
  bias_gelu_backward(z.data(), no_bias.data(), ones.data(), derivative.data(), 1, count, serial());
  double error = 0, plain_error = 0, slope_error = 0, plain_slope_error = 0;
  for (std::size_t i = 0; i < z.size(); ++i) {
    // Relative to z: what is left of a negative z has fewer digits, in the plain formula too.
    const double scale = std::abs(z[i]);
    error = std::max(error, std::abs(value[i] - gelu(z[i])) / scale);
    plain_error = std::max(plain_error, std::abs(plain_gelu(z[i]) - gelu(z[i])) / scale);
    if (scale > 1e10F) continue;  // the plain slope is inf·0 there
    slope_error = std::max(slope_error, std::abs(derivative[i] - slope(z[i])));
    plain_slope_error = std::max(plain_slope_error, std::abs(plain_slope(z[i]) - slope(z[i])));
  }
  EXPECT_LE(error, 2 * plain_error);
  EXPECT_LE(slope_error, 3 * plain_slope_error);
}

TEST(Gelu, FarOutItIsTheIdentityOrNothing) {
  const std::vector<float> z = {1e30F, -1e30F, 50.0F, -50.0F, 0.0F};
  const std::vector<float> bias(5, 0.0F), ones(5, 1.0F);
  std::vector<float> value(5), derivative(5);
  bias_gelu_forward(z.data(), bias.data(), value.data(), 1, 5, serial());
  bias_gelu_backward(z.data(), bias.data(), ones.data(), derivative.data(), 1, 5, serial());
  EXPECT_EQ(value[0], 1e30F);
  EXPECT_NEAR(value[1], 0, 1e-6);
  EXPECT_EQ(value[2], 50.0F);
  EXPECT_NEAR(value[3], 0, 1e-30);
  EXPECT_EQ(value[4], 0.0F);
  const std::vector<double> wanted = {1, 0, 1, 0, 0.5};
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(derivative[i], wanted[i], 1e-30);
}

TEST(Gelu, NanStaysNan) {
  const float z = std::numeric_limits<float>::quiet_NaN(), zero = 0, one = 1;
  float value = 0, derivative = 0;
  bias_gelu_forward(&z, &zero, &value, 1, 1, serial());
  bias_gelu_backward(&z, &zero, &one, &derivative, 1, 1, serial());
  EXPECT_TRUE(std::isnan(value));
  EXPECT_TRUE(std::isnan(derivative));
}

// Every width up to several vectors, every row with its own numbers, and nothing written outside.
TEST(Gelu, EveryShapeAddsTheBiasOfItsColumn) {
  const Parallel pretended{3, [](std::int64_t count, const auto& task) {
                             for (std::int64_t i = count; i-- > 0;) task(i);
                           }};
  const float canary = 123456.0F;
  for (std::int64_t columns = 0; columns <= 70; ++columns) {
    for (const std::int64_t rows : {0, 1, 5, 40}) {
      const auto size = static_cast<std::size_t>(rows * columns);
      std::vector<float> x(size), d_out(size), bias(static_cast<std::size_t>(columns));
      std::vector<float> out(size + 1, canary), d_x(size + 1, canary);
      std::uint32_t drawn = 0;
      const auto draw = [&](std::vector<float>& values) {
        for (float& value : values) {
          value = static_cast<float>(normal_deviates(1, {drawn++, 0, 0, 0})[0]);
        }
      };
      draw(x);
      draw(d_out);
      draw(bias);
      bias_gelu_forward(x.data(), bias.data(), out.data(), rows, columns, pretended);
      bias_gelu_backward(x.data(), bias.data(), d_out.data(), d_x.data(), rows, columns, pretended);
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          const auto at = static_cast<std::size_t>(i * columns + j);
          const float z = x[at] + bias[j];
          EXPECT_NEAR(out[at], gelu(z), 1e-6) << columns;
          EXPECT_NEAR(d_x[at], d_out[at] * slope(z), 3e-6) << columns;
        }
      }
      EXPECT_EQ(out[size], canary);
      EXPECT_EQ(d_x[size], canary);
    }
  }
}

}  // namespace
}  // namespace ssa
