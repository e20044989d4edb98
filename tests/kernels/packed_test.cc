// Packed sequences and dropout against what they are defined by.
#include <gtest/gtest.h>

#include "kernels/judge.h"

namespace ssa::test {
namespace {

/// Scores of 0 and values that are the unit matrix: out is the weights themselves.
TEST(Dropout, FallsByTheWordsOnEveryTarget) {
  for_each_target([] {
    for (const bool mask : {false, true}) {
      Options o = base(90, 600);  // blocks of keys that do not end where groups of 64 do
      o.v_dim = 600;
      o.dropout = 0.3;
      o.mask = mask;
      o.magnitude = 0;
      Inputs<float> in = make_inputs(o);
      if (mask) in.mask.each([](bool& x) { x = true; });
      std::int64_t element = 0;
      in.value.each([&](float& x) {
        x = element % 600 == element / 600 % 600 ? 1.0f : 0.0f;
        ++element;
      });
      in.connect(o);
      in.args.seed = 0x0123456789abcdef;
      in.args.first_sequence = 5;
      Results<float> r(o);
      attention_forward(in.args, r.out.view(), r.lse.data(), serial());
      for (std::int64_t b = 0; b < o.batch; ++b) {
        for (std::int64_t h = 0; h < o.query_heads; ++h) {
          for (std::int64_t i = 0; i < o.query_length; ++i) {
            for (std::int64_t group = 0; group * 64 < 600; ++group) {
              const auto words = dropout_words(0x0123456789abcdef, 5 + b, h, i, group);
              for (std::int64_t j = group * 64; j < std::min<std::int64_t>(600, group * 64 + 64);
                   ++j) {
                const bool falls = words[j - group * 64] < dropout_threshold(0.3);
                ASSERT_EQ(*r.out.view().at(b, h, i, j) == 0, falls) << b << h << i << " " << j;
              }
            }
          }
        }
      }
    }
  });
}

TEST(Dropout, DoesNotDependOnThreads) {
  Options o = base(300, 300);
  o.batch = o.query_heads = o.kv_heads = 1;
  o.dropout = 0.4;
  const Inputs<float> in = make_inputs(o);
  Results<float> one(o), many(o);
  attention_forward(in.args, one.out.view(), one.lse.data(), serial());
  attention_forward(in.args, many.out.view(), many.lse.data(), pretend(7));
  EXPECT_EQ(values_of(one.out), values_of(many.out));
  o.dropout = 0;
  const Inputs<float> without = make_inputs(o);
  Results<float> plain(o);
  attention_forward(without.args, plain.out.view(), plain.lse.data(), serial());
  EXPECT_EQ(plain.lse, one.lse);  // the normaliser is not changed
}

/// Whatever other sequences hold, a packed sequence has the bits of a call of its own.
TEST(Packed, SequencesAreCallsOfTheirOwn) {
  Options o = base(0, 0);
  o.batch = 1;
  o.query_lengths = {12, 1, 0, 130, 40};
  o.key_lengths_packed = {12, 7, 5, 130, 0};
  o.query_length = 183;
  o.key_length = 154;
  o.causal = true;
  o.dropout = 0.2;
  o.layout = Layout::kTokenMajor;
  Inputs<float> in = make_inputs(o);
  for (std::int64_t j = 20; j < 24; ++j) *in.key.view().at(0, 1, j, 3) = kNan;  // seen by no query
  *in.value.view().at(0, 0, 24 + 129, 0) = kNan;
  in.connect(o);
  Results<float> together = run_fused(in, o, serial());
  std::int64_t query = 0, key = 0;
  for (std::size_t s = 0; s < o.query_lengths.size(); ++s) {
    Options one = o;
    one.query_length = o.query_lengths[s];
    one.key_length = o.key_lengths_packed[s];
    one.query_lengths.clear();
    AttentionArgs<float> args = in.args;
    args.cu_query = args.cu_key = nullptr;
    args.query_length = one.query_length;
    args.key_length = one.key_length;
    args.first_sequence = static_cast<std::int64_t>(s);
    args.query.data = in.args.query.at(0, 0, query);
    args.key.data = in.args.key.at(0, 0, key);
    args.value.data = in.args.value.at(0, 0, key);
    Results<float> alone(one);
    attention_forward(args, alone.out.view(), alone.lse.data(), serial());
    View4<const float> d_out = std::as_const(in.d_out).view();
    d_out.data = d_out.at(0, 0, query);
    attention_backward(args, std::as_const(alone.out).view(), alone.lse.data(), d_out, nullptr,
                       alone.gradients, serial());
    const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
    for (std::int64_t h = 0; h < o.query_heads; ++h) {
      for (std::int64_t i = 0; i < one.query_length; ++i) {
        EXPECT_TRUE(same(alone.lse[h * one.query_length + i],
                         together.lse[h * o.query_length + query + i]));
        for (std::int64_t c = 0; c < o.v_dim; ++c) {
          EXPECT_TRUE(
              same(*alone.out.view().at(0, h, i, c), *together.out.view().at(0, h, query + i, c)));
        }
        for (std::int64_t c = 0; c < o.qk_dim; ++c) {
          EXPECT_TRUE(same(*alone.d_query.view().at(0, h, i, c),
                           *together.d_query.view().at(0, h, query + i, c)));
        }
      }
    }
    for (std::int64_t h = 0; h < o.kv_heads; ++h) {
      for (std::int64_t j = 0; j < one.key_length; ++j) {
        EXPECT_TRUE(
            same(*alone.d_key.view().at(0, h, j, 0), *together.d_key.view().at(0, h, key + j, 0)));
        EXPECT_TRUE(same(*alone.d_value.view().at(0, h, j, 0),
                         *together.d_value.view().at(0, h, key + j, 0)));
      }
    }
    query += one.query_length;
    key += one.key_length;
  }
}

TEST(Packed, LongSequencesAreSplitAmongThreads) {
  Judge judge;
  for (std::uint64_t seed = 1; seed <= 12; seed += kThin) {
    Options o = packed(base(0, 0), seed);
    for (std::vector<std::int64_t>* lengths : {&o.query_lengths, &o.key_lengths_packed}) {
      lengths->push_back(400);
    }
    o.query_length += 400;
    o.key_length += 400;
    o.query_heads = o.kv_heads = 1;
    o.seed = seed;
    o.causal = seed % 2 == 0;
    judge.check(o, pretend(8));
  }
}

}  // namespace
}  // namespace ssa::test
