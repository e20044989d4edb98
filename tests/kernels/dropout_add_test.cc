#include "ssa/dropout_add.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ssa/philox.h"
#include "ssa/random.h"

namespace ssa {
namespace {

constexpr std::uint64_t kSeed = 0x0123456789ABCDEF;

std::vector<float> normal(std::int64_t count, std::uint32_t stream) {
  std::vector<float> out;
  for (std::uint32_t i = 0; std::ssize(out) < count; ++i) {
    for (const double value : normal_deviates(7, {i, stream, 0, 0})) {
      out.push_back(static_cast<float>(value));
    }
  }
  out.resize(count);
  return out;
}

/// 0 or 1/(1 − p) at every place, word for word from philox.h.
std::vector<float> factors(std::int64_t rows, std::int64_t columns, double p) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto words = dropout_words(kSeed, 0, 0, static_cast<std::uint32_t>(i),
                                       static_cast<std::uint32_t>(j / kDropoutGroup));
      const bool falls = words[j % kDropoutGroup] < dropout_threshold(p);
      out.push_back(falls ? 0 : static_cast<float>(1 / (1 - p)));
    }
  }
  return out;
}

/// Both passes for rows × columns, widths with and without a rest, on several threads.
template <class T>
void check(std::int64_t rows, std::int64_t columns, double p) {
  const std::int64_t count = rows * columns;
  const std::vector<float> values = normal(count, 1), residual = normal(count, 2),
                           factor = factors(rows, columns, p);
  std::vector<T> x;
  for (const float value : values) x.push_back(T(value));
  for (const Parallel& parallel : {serial(), thread_pool(3)}) {
    std::vector<float> out(count, -1);
    std::vector<T> d_x(count, T(-1.0F));
    dropout_add_forward(x.data(), residual.data(), out.data(), rows, columns, p, kSeed, parallel);
    dropout_add_backward(values.data(), d_x.data(), rows, columns, p, kSeed, parallel);
    for (std::int64_t at = 0; at < count; ++at) {
      ASSERT_FLOAT_EQ(out[at], residual[at] + factor[at] * static_cast<float>(x[at])) << at;
      ASSERT_EQ(static_cast<float>(d_x[at]), static_cast<float>(T(factor[at] * values[at]))) << at;
    }
  }
}

TEST(DropoutAdd, IsThePlainFormulaWithTheMaskOfPhilox) {
  for (const std::int64_t columns : {1, 7, 16, 64, 65, 100, 256}) {
    for (const double p : {0.0, 0.1, 0.9}) {
      check<float>(5, columns, p);
      check<BFloat16>(5, columns, p);
    }
  }
  check<float>(0, 8, 0.1);
}

// 40 000 places at p = 0.1: five standard errors are 0.0075.
TEST(DropoutAdd, DropsTheShareThatIsAskedFor) {
  const std::vector<float> ones(40000, 1.0F);
  std::vector<float> d_x(ones.size());
  dropout_add_backward(ones.data(), d_x.data(), 100, 400, 0.1, kSeed, serial());
  EXPECT_NEAR(std::count(d_x.begin(), d_x.end(), 0.0F) / 40000.0, 0.1, 0.0075);
}

}  // namespace
}  // namespace ssa
