// Bad arguments are refused by name; SSA_TARGET chooses the instruction set.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "kernels/judge.h"
#include "ssa/dropout_add.h"
#include "ssa/gelu.h"

namespace ssa::test {
namespace {

/// The forward pass throws and says `words`.
void expect_refused(const AttentionArgs<float>& args, const Options& o, std::string_view words) {
  Results<float> r(o);
  try {
    attention_forward(args, r.out.view(), r.lse.data(), serial());
    ADD_FAILURE() << "accepted, expected: " << words;
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos) << error.what();
  }
}

TEST(Arguments, BadPackedOnesAreRefusedByName) {
  struct Bad {
    std::string_view words;
    std::vector<std::int64_t> query, key;
    bool bias = false;
    std::int64_t batch = 1;
  };
  const Bad cases[] = {
      {"cu_query[0] must be 0, got 1", {1, 5}, {0, 7}},
      {"cu_key must not decrease, but cu_key[1] = 8 and cu_key[2] = 7", {0, 2, 5}, {0, 8, 7}},
      {"cu_query[2] must be the length 5, got 6", {0, 2, 6}, {0, 4, 7}},
      {"cu_key[1] must be the length 7, got 0", {0, 5}, {0, 0}},
      {"packed sequences take no mask, bias or key_lengths", {0, 5}, {0, 7}, true},
      {"packed sequences need a batch of 1, got 2", {0, 5}, {0, 7}, false, 2},
  };
  for (const Bad& bad : cases) {
    Options o = base(5, 7);
    o.batch = bad.batch;
    o.bias = bad.bias;
    const Inputs<float> in = make_inputs(o);
    AttentionArgs<float> args = in.args;
    args.sequences = static_cast<std::int64_t>(bad.query.size()) - 1;
    args.cu_query = bad.query.data();
    args.cu_key = bad.key.data();
    expect_refused(args, o, bad.words);
  }
}

TEST(Arguments, BadOnesAreRefusedByName) {
  struct Bad {
    std::string_view words;
    std::function<void(AttentionArgs<float>&)> spoil;
  };
  static const std::int64_t kTooLong[] = {3, 8};
  static const float kValues[] = {1, 0, kNan, -1};
  const Bad cases[] = {
      {"33 query heads and 2 kv heads", [](auto& a) { a.query_heads = 33; }},
      {"unknown score \"relu\"; known: softmax", [](auto& a) { a.score = "relu"; }},
      {"qk_dim must be >= 0, got -1", [](auto& a) { a.qk_dim = -1; }},
      {"key_length must be >= 0, got -7", [](auto& a) { a.key_length = -7; }},
      {"key_lengths[1] must lie in [0, 7], got 8", [](auto& a) { a.key_lengths = kTooLong; }},
      {"parameter n of score ssa must be finite and > 0, head 1 has 0",
       [](auto& a) {
         a.params[0] = {kValues, 1};
       }},
      {"parameter b of score ssa must be finite and > 0, head 0 has nan",
       [](auto& a) {
         a.params[1] = {kValues + 2, 0};
       }},
      {"parameter b of score ssa must be finite and > 0, head 0 has -1",
       [](auto& a) {
         a.params[1] = {kValues + 3, 0};
       }},
      {"score ssa needs parameter n", [](auto& a) { a.params[0].data = nullptr; }},
      {"scale must be finite", [](auto& a) { a.scale = kInf; }},
      {"alibi_slopes must be finite, head 2 has nan",
       [](auto& a) {
         a.alibi_slopes = {kValues, 1};
       }},
      {"dropout must be in [0, 1), got 1", [](auto& a) { a.dropout = 1; }},
      {"dropout must be in [0, 1), got nan", [](auto& a) { a.dropout = double{kNan}; }},
      {"window must be >= 1, or 0 for none, got -4", [](auto& a) { a.window = -4; }},
      {"value has no data", [](auto& a) { a.value.data = nullptr; }},
  };
  const Options o = base(5, 7);
  const Inputs<float> in = make_inputs(o);
  for (const Bad& bad : cases) {
    AttentionArgs<float> args = in.args;
    bad.spoil(args);
    expect_refused(args, o, bad.words);
    Results<float> r(o);
    EXPECT_THROW(attention_backward(args, std::as_const(r.out).view(), r.lse.data(),
                                    in.d_out.view(), nullptr, r.gradients, serial()),
                 std::invalid_argument);
  }
}

/// `call` throws and says `words`.
template <class Call>
void expect_no_data(std::string_view words, Call&& call) {
  try {
    call();
    ADD_FAILURE() << "accepted, expected: " << words;
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(std::string_view(error.what()), words);
  }
}

TEST(Arguments, ResultsNeedAPlace) {
  const Options o = base(5, 7);
  const Inputs<float> in = make_inputs(o);
  Results<float> r(o);
  const View4<float> out = r.out.view(), nowhere{};
  const View4<const float> given = std::as_const(r.out).view(), none{};
  float* const lse = r.lse.data();
  expect_no_data("attention: out has no data",
                 [&] { attention_forward(in.args, nowhere, lse, serial()); });
  expect_no_data("attention: lse has no data",
                 [&] { attention_forward(in.args, out, nullptr, serial()); });
  const auto backward = [&](const View4<const float>& of_out, const float* of_lse,
                            const View4<const float>& d_out) {
    attention_backward(in.args, of_out, of_lse, d_out, nullptr, r.gradients, serial());
  };
  const View4<const float> d_out = in.d_out.view();
  expect_no_data("attention: out has no data", [&] { backward(none, lse, d_out); });
  expect_no_data("attention: lse has no data", [&] { backward(given, nullptr, d_out); });
  expect_no_data("attention: d_out has no data", [&] { backward(given, lse, none); });

  float one = 0;
  expect_no_data("bias_gelu_forward: out has no data",
                 [&] { bias_gelu_forward(&one, &one, nullptr, 1, 1, serial()); });
  expect_no_data("bias_gelu_backward: d_x has no data",
                 [&] { bias_gelu_backward(&one, &one, &one, nullptr, 1, 1, serial()); });
  expect_no_data("dropout_add_forward: out has no data",
                 [&] { dropout_add_forward(&one, &one, nullptr, 1, 1, 0.5, 0, serial()); });
  expect_no_data("dropout_add_backward: d_x has no data", [&] {
    dropout_add_backward(&one, static_cast<float*>(nullptr), 1, 1, 0.5, 0, serial());
  });
}

TEST(Arguments, NoElementsNeedNoPlace) {
  Options o = base(5, 7);
  const Inputs<float> in = make_inputs(o);
  AttentionArgs<float> args = in.args;
  args.batch = 0;
  EXPECT_NO_THROW(attention_forward(args, View4<float>{}, nullptr, serial()));
}

TEST(Target, EveryOneIsReported) {
  std::vector<std::string> names;
  for_each_target([&] { names.push_back(kernel_target()); });
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(std::string(kernel_target()), names.front());
}

/// SSA_TARGET is read once per process, so these run in children.
TEST(TargetDeathTest, EnvironmentRestrictsIt) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto with = [](const char* value, auto&& body) {
    EXPECT_EXIT(
        {
          setenv("SSA_TARGET", value, 1);
          body();
        },
        ::testing::ExitedWithCode(0), "");
  };
  std::vector<std::string> names;
  for (const std::int64_t t : hwy::SupportedAndGeneratedTargets())
    names.push_back(hwy::TargetName(t));
  for (const std::string& name : names) {
    with(name.c_str(), [&] {
      Options o = base(9, 13);
      run_fused(make_inputs(o), o, serial());
      std::exit(kernel_target() == name ? 0 : 1);
    });
  }
  with("AVX1024", [&] {
    try {
      kernel_target();
    } catch (const std::invalid_argument& error) {
      const std::string text = error.what();
      for (const std::string& name : names) {
        if (text.find(name) == std::string::npos) std::exit(1);
      }
      std::exit(text.find("AVX1024") == std::string::npos ? 1 : 0);
    }
    std::exit(1);
  });
}

}  // namespace
}  // namespace ssa::test
