// Causal SSA attention of one head on plain arrays: prints the output's first component and the
// logarithm of the normaliser for each query.
#include <cmath>
#include <cstdio>
#include <vector>

#include "ssa/attention.h"

int main() {
  constexpr int kLength = 4, kDim = 8;
  std::vector<float> query(kLength * kDim), key(query), value(query), out(query), lse(kLength);
  for (int i = 0; i < kLength * kDim; ++i) {
    query[i] = std::sin(0.7F * i);
    key[i] = std::cos(0.3F * i);
    value[i] = static_cast<float>(i / kDim);
  }
  const float n = 1.5F, b = 0.8F;

  ssa::AttentionArgs<float> args;
  args.score = "ssa";
  args.batch = args.query_heads = args.kv_heads = 1;
  args.query_length = args.key_length = kLength;
  args.qk_dim = args.v_dim = kDim;
  args.scale = 1 / std::sqrt(static_cast<float>(kDim));
  args.causal = true;
  args.params = {{{&n, 0}, {&b, 0}}};
  args.query = {query.data(), {0, 0, kDim, 1}};
  args.key = {key.data(), {0, 0, kDim, 1}};
  args.value = {value.data(), {0, 0, kDim, 1}};
  ssa::attention_forward(args, {out.data(), {0, 0, kDim, 1}}, lse.data(), ssa::thread_pool());

  for (int i = 0; i < kLength; ++i) std::printf("%.4f %.4f\n", out[i * kDim], lse[i]);
}
