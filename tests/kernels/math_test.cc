// The table of math-inl.h, line by line, on every instruction set: largest error in units in the
// last place, and NaN.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/math_test.cc"
// clang-format off: foreach_target.h comes first
#include <hwy/foreach_target.h>
// clang-format on
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

/// y[i] = function(x[i]); count is a multiple of every vector's size.
template <class Math>
void evaluate_with(const Math& math, int function, const float* x, float* y, std::size_t count) {
  const FloatTag d;
  for (std::size_t i = 0; i < count; i += kLanes) {
    const Floats v = hn::LoadU(d, x + i);
    Floats result = v;
    if (function == 0) result = math.log2_1p(v);
    if (function == 1) result = math.exp2(v);
    if (function == 2) result = math.exp2_in_range(v);
    if (function == 3) result = math.recip(v);
    if (function == 4) result = math.tanh(v);
    hn::StoreU(result, d, y + i);
  }
}

void evaluate(bool portable, int function, const float* x, float* y, std::size_t count) {
  if (portable) {
    evaluate_with(PortableMath(), function, x, y, count);
  } else {
    evaluate_with(VectorMath(), function, x, y, count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "kernels/judge.h"

namespace ssa {
HWY_EXPORT(evaluate);
namespace test {
namespace {

struct Row {
  const char* name;
  int function;
  double (*exact)(double);
  double max_ulp;
  float low, high;              ///< sampled densely in between
  float every_low, every_high;  ///< and every float in between
};

void PrintTo(const Row& row, std::ostream* stream) { *stream << row.name; }

double exact_log2_1p(double x) { return std::log1p(x) / std::log(2.0); }
double exact_exp2(double y) { return std::exp2(y); }
double exact_recip(double x) { return 1 / x; }
double exact_tanh(double x) { return std::tanh(x); }

const Row kRows[] = {
    {"log2_1p", 0, exact_log2_1p, 4, 0.0f, 0x1p127f, 0.0f, 0.0f},
    // The core, all mantissas of 1 + x in [1, 2) for which x is a multiple of 2^-23.
    {"log2_1p_core", 0, exact_log2_1p, 4, 0.5f, 1.0f, 0.5f, 1.0f},
    {"exp2", 1, exact_exp2, 3, -126.0f, 127.0f, 0.5f, 1.0f},
    {"exp2_in_range", 2, exact_exp2, 3, -126.0f, 127.0f, 0.5f, 1.0f},
    {"recip", 3, exact_recip, 1, 0x1p-126f, 0x1p126f, 1.0f, 2.0f},
    {"tanh", 4, exact_tanh, 3, -20.0f, 20.0f, 0.5f, 1.0f},
};

/// Floats from low to high: all of [every_low, every_high), evenly spaced ones, and random bit
/// patterns of any magnitude in the range.
std::vector<float> samples(const Row& row) {
  std::vector<float> x;
  for (float v = row.every_low; v < row.every_high; v = std::nextafter(v, row.every_high))
    x.push_back(v);
  constexpr int kEven = (1 << 19) / kThin;
  for (int i = 0; i <= kEven; ++i) {
    x.push_back(static_cast<float>(row.low + (double(row.high) - row.low) * i / kEven));
  }
  std::mt19937 random(1);
  for (int i = 0; i < (1 << 20) / kThin; ++i) {
    const float v = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (v >= row.low && v <= row.high && std::abs(v) >= 0x1p-100f) x.push_back(v);
  }
  if (row.function == 0) {  // multiples of 2^-23: every float 1 + x in [1, 2)
    for (int i = 0; i < 1 << 23; i += 3 * kThin) x.push_back(static_cast<float>(i) * 0x1p-23f);
  }
  while (x.size() % 16 != 0) x.push_back(row.high);
  return x;
}

class MathTable : public ::testing::TestWithParam<Row> {};

TEST_P(MathTable, ErrorInUlp) {
  const Row& row = GetParam();
  const std::vector<float> x = samples(row);
  std::vector<double> exact(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) exact[i] = row.exact(x[i]);
  std::vector<float> y(x.size());
  for_each_target([&] {
    for (const bool portable : {false, true}) {
      HWY_DYNAMIC_DISPATCH(evaluate)(portable, row.function, x.data(), y.data(), x.size());
      double worst = 0, at = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto nearest = static_cast<float>(exact[i]);
        const double ulp = std::nextafter(std::abs(nearest), INFINITY) - std::abs(nearest);
        const double error = std::abs(y[i] - exact[i]) / ulp;
        if (!(error <= worst)) {
          worst = error;
          at = x[i];
        }
      }
      RecordProperty((std::string(kernel_target()) + (portable ? "_portable" : "")).c_str(),
                     std::to_string(worst));
      EXPECT_LE(worst, row.max_ulp) << (portable ? "portable" : "best") << ", worst at " << at;
    }
  });
}

TEST_P(MathTable, NanStaysNan) {
  const Row& row = GetParam();
  for_each_target([&] {
    // All kinds of payload: some functions shift bits of their argument into the exponent.
    for (const std::uint32_t bits :
         {0x7fc00000u, 0xffc00000u, 0xffffffffu, 0x7fc00001u, 0x7fffffffu}) {
      for (const bool portable : {false, true}) {
        const std::vector<float> x(16, std::bit_cast<float>(bits));
        std::vector<float> y(16, 0.0f);
        HWY_DYNAMIC_DISPATCH(evaluate)(portable, row.function, x.data(), y.data(), x.size());
        for (const float v : y)
          EXPECT_TRUE(std::isnan(v)) << row.name << " of " << std::hex << bits;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Rows, MathTable, ::testing::ValuesIn(kRows),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Math, LogarithmOfInfinityIsInfinite) {
  for_each_target([] {
    for (const bool portable : {false, true}) {
      const std::vector<float> x(16, INFINITY);
      std::vector<float> y(16);
      HWY_DYNAMIC_DISPATCH(evaluate)(portable, 0, x.data(), y.data(), x.size());
      for (const float v : y) EXPECT_EQ(v, INFINITY);
    }
  });
}

TEST(Math, Exp2BelowItsRangeIsZero) {
  for_each_target([] {
    for (const bool portable : {false, true}) {
      std::vector<float> x(16, -126.1f), y(16);
      x[0] = -1e30f;
      x[1] = -INFINITY;
      HWY_DYNAMIC_DISPATCH(evaluate)(portable, 1, x.data(), y.data(), x.size());
      for (const float v : y) EXPECT_EQ(v, 0.0f);
    }
  });
}

}  // namespace
}  // namespace test
}  // namespace ssa
#endif  // HWY_ONCE
