#include "ssa/few_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/judge.h"
#include "kernels/scratch.h"
#include "ssa/random.h"

namespace ssa {
namespace {

constexpr float kCanary = 123456.0F;

/// A problem whose weight is kept in both layouts.
template <class T>
struct Problem {
  std::int64_t count, inputs, outputs;
  std::vector<float> rows, bias;
  std::vector<T> weight, table;

  Problem(std::int64_t m, std::int64_t k, std::int64_t n)
      : count(m), inputs(k), outputs(n), rows(m * k), bias(n), weight(k * n), table(k * n) {
    std::uint32_t drawn = 0;
    const auto draw = [&] { return static_cast<float>(normal_deviates(1, {drawn++, 0, 0, 0})[0]); };
    for (float& value : rows) value = draw();
    for (float& value : bias) value = draw();
    for (std::int64_t i = 0; i < k * n; ++i) weight[i] = T(draw());
    transpose();
  }

  void transpose() {
    for (std::int64_t k = 0; k < inputs; ++k) {
      for (std::int64_t n = 0; n < outputs; ++n) {
        table[n * inputs + k] = weight[k * outputs + n];
      }
    }
  }

  /// Of the first `some` rows.
  std::vector<float> run(bool by_table, const Parallel& parallel, std::int64_t some,
                         bool with_bias = true) const {
    std::vector<float> out(some * outputs + 1, kCanary);
    const float* added = with_bias ? bias.data() : nullptr;
    if (by_table) {
      few_rows_product_with_table(rows.data(), some, table.data(), inputs, outputs, added,
                                  out.data(), parallel);
    } else {
      few_rows_product(rows.data(), some, weight.data(), inputs, outputs, added, out.data(),
                       parallel);
    }
    EXPECT_EQ(out.back(), kCanary);
    out.pop_back();
    return out;
  }

  template <class U>
  U plain(std::int64_t i, std::int64_t n, bool with_bias = true) const {
    U sum = 0;
    for (std::int64_t k = 0; k < inputs; ++k) {
      sum += U(rows[i * inputs + k]) * U(float(weight[k * outputs + n]));
    }
    return with_bias ? sum + U(bias[n]) : sum;
  }
};

template <class T>
class FewRows : public ::testing::Test {};
using Types = ::testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(FewRows, Types);

Parallel backwards(int threads) {
  return {threads, [](std::int64_t count, const auto& task) {
            for (std::int64_t i = count; i-- > 0;) task(i);
          }};
}

// Sizes on both sides of vectors, groups of inputs, panels and strips.
TYPED_TEST(FewRows, IsAsAccurateAsPlainLoops) {
  fill_scratch_with_nan(true);
  test::for_each_target([] {
    double ours = 0, plain = 0, truth_squared = 0;
    for (const auto& [inputs, outputs] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                          {3, 5},
                                          {31, 70},
                                          {257, 33},
                                          {70, 300},
                                          {523, 131}}) {
      for (const std::int64_t count : {1, 2, 3, 5, 8, 9, 15, 16}) {
        const Problem<TypeParam> problem(count, inputs, outputs);
        for (const bool by_table : {false, true}) {
          for (const bool with_bias : {false, true}) {
            const auto out = problem.run(by_table, backwards(3), count, with_bias);
            for (std::int64_t i = 0; i < count; ++i) {
              for (std::int64_t n = 0; n < outputs; ++n) {
                const auto truth = problem.template plain<double>(i, n, with_bias);
                const auto loops = problem.template plain<float>(i, n, with_bias);
                const double off = out[i * outputs + n] - truth;
                ASSERT_LE(std::abs(off), 1e-5 * (1 + inputs))
                    << count << " " << inputs << " " << outputs;
                ours += off * off;
                plain += (loops - truth) * (loops - truth);
                truth_squared += truth * truth;
              }
            }
          }
        }
      }
    }
    EXPECT_LE(std::sqrt(ours), 2 * std::sqrt(plain));
    EXPECT_GT(truth_squared, 0);
  });
  fill_scratch_with_nan(false);
}

// Texts of a batch are those of one at a time, on any machine.
TYPED_TEST(FewRows, ARowsBitsDependNeitherOnOtherRowsNorOnThreads) {
  test::for_each_target([] {
    const Problem<TypeParam> problem(16, 301, 1100);
    for (const bool by_table : {false, true}) {
      const auto all = problem.run(by_table, serial(), 16);
      for (const int threads : {2, 3, 7}) {
        EXPECT_EQ(problem.run(by_table, backwards(threads), 16), all) << threads;
      }
      for (std::int64_t count = 1; count < 16; ++count) {
        const auto some = problem.run(by_table, backwards(5), count);
        EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << count;
      }
    }
  });
}

// A row's poison reaches all outputs of the row, a weight's all rows of its output, and nothing
// else.
TYPED_TEST(FewRows, NanAndInfinityPassThrough) {
  test::for_each_target([] {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (const float poison : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
      Problem<TypeParam> problem(9, 21, 37);
      problem.rows[3 * 21 + 20] = poison;
      problem.weight[20 * 37 + 36] = TypeParam(poison);
      problem.transpose();
      for (const bool by_table : {false, true}) {
        const auto out = problem.run(by_table, serial(), 9);
        for (std::int64_t i = 0; i < 9; ++i) {
          for (std::int64_t n = 0; n < 37; ++n) {
            EXPECT_EQ(std::isfinite(out[i * 37 + n]), i != 3 && n != 36) << i << " " << n;
            if (poison == kInfinity && (i == 3) != (n == 36)) {
              EXPECT_TRUE(std::isinf(out[i * 37 + n])) << i << " " << n;
            }
          }
        }
      }
    }
  });
}

TYPED_TEST(FewRows, TakesNothingAndRefusesTooMuch) {
  const Problem<TypeParam> none(0, 5, 3), without_inputs(2, 0, 3);
  for (const bool by_table : {false, true}) {
    EXPECT_TRUE(none.run(by_table, serial(), 0).empty());
    const auto out = without_inputs.run(by_table, serial(), 2);
    for (std::int64_t n = 0; n < 6; ++n) EXPECT_EQ(out[n], without_inputs.bias[n % 3]);
    const Problem<TypeParam> many(kFewRows + 1, 2, 2);
    EXPECT_THROW(many.run(by_table, serial(), kFewRows + 1), std::invalid_argument);
  }
}

}  // namespace
}  // namespace ssa
