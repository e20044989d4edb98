#include <gtest/gtest.h>

#include "kernels/problem.h"

namespace ssa::test {
namespace {

class EveryScore : public ::testing::TestWithParam<std::string_view> {};

TEST_P(EveryScore, CausalLengths1To130) {
  for (std::int64_t length = 1; length <= 130; ++length) {
    Options o;
    o.score = GetParam();
    o.query_length = o.key_length = length;
    o.qk_dim = o.v_dim = 5 + length % 30;
    o.query_heads = o.kv_heads = 2;
    o.causal = true;
    check(o, serial());
    if (HasFailure()) return;
  }
}

std::vector<std::string_view> score_names() {
  std::vector<std::string_view> names;
  for (const ScoreInfo& score : scores()) names.push_back(score.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Scores, EveryScore, ::testing::ValuesIn(score_names()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ssa::test
