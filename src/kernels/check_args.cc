#include "kernels/check_args.h"

#include <cmath>

#include "ssa/check.h"

namespace ssa {
namespace {

template <class T>
void check_params(const AttentionArgs<T>& args, const ScoreInfo& score) {
  for (std::size_t k = 0; k < score.params.size(); ++k) {
    const HeadValues<const ScoreType<T>>& values = args.params[k];
    const std::string_view name = score.params[k].name;
    SSA_CHECK(values.data != nullptr || args.query_heads == 0,
              "attention: score " << score.name << " needs parameter " << name << ", none given");
    for (std::int64_t h = 0; h < args.query_heads; ++h) {
      const ScoreType<T> value = values.data[h * values.stride];
      SSA_CHECK(score.params[k].allows(value), "attention: parameter "
                                                   << name << " of score " << score.name
                                                   << " must be " << range_of(score.params[k])
                                                   << ", head " << h << " has " << value);
    }
  }
}

template <class T>
void check_sizes(const AttentionArgs<T>& args) {
  const auto not_negative = [](const char* name, std::int64_t size) {
    SSA_CHECK(size >= 0, "attention: " << name << " must be >= 0, got " << size);
  };
  not_negative("batch", args.batch);
  not_negative("query_heads", args.query_heads);
  not_negative("kv_heads", args.kv_heads);
  not_negative("query_length", args.query_length);
  not_negative("key_length", args.key_length);
  not_negative("qk_dim", args.qk_dim);
  not_negative("v_dim", args.v_dim);
  SSA_CHECK(args.kv_heads == 0 ? args.query_heads == 0 : args.query_heads % args.kv_heads == 0,
            "attention: query_heads must be a multiple of kv_heads, got "
                << args.query_heads << " query heads and " << args.kv_heads << " kv heads");
  SSA_CHECK(std::isfinite(args.scale), "attention: scale must be finite, got " << args.scale);
  for (std::int64_t h = 0; h < args.query_heads && args.alibi_slopes.data != nullptr; ++h) {
    const auto slope = args.alibi_slopes.data[h * args.alibi_slopes.stride];
    SSA_CHECK(std::isfinite(slope),
              "attention: alibi_slopes must be finite, head " << h << " has " << slope);
  }
  SSA_CHECK(args.dropout >= 0 && args.dropout < 1,
            "attention: dropout must be in [0, 1), got " << args.dropout);
  SSA_CHECK(args.window >= 0, "attention: window must be >= 1, or 0 for none, got " << args.window);
}

template <class T>
void check_data(const AttentionArgs<T>& args) {
  const std::int64_t queries = args.batch * args.query_heads * args.query_length;
  const std::int64_t keys = args.batch * args.kv_heads * args.key_length;
  check_given("attention: query", args.query.data, queries * args.qk_dim);
  check_given("attention: key", args.key.data, keys * args.qk_dim);
  check_given("attention: value", args.value.data, keys * args.v_dim);
  if (args.key_lengths == nullptr) return;
  for (std::int64_t b = 0; b < args.batch; ++b) {
    SSA_CHECK(args.key_lengths[b] >= 0 && args.key_lengths[b] <= args.key_length,
              "attention: key_lengths[" << b << "] must lie in [0, " << args.key_length << "], got "
                                        << args.key_lengths[b]);
  }
}

/// Cumulative lengths of packed sequences.
void check_cumulative(const char* name, const std::int64_t* cu, std::int64_t sequences,
                      std::int64_t length) {
  SSA_CHECK(cu[0] == 0, "attention: " << name << "[0] must be 0, got " << cu[0]);
  for (std::int64_t s = 0; s < sequences; ++s) {
    SSA_CHECK(cu[s] <= cu[s + 1], "attention: " << name << " must not decrease, but " << name << "["
                                                << s << "] = " << cu[s] << " and " << name << "["
                                                << s + 1 << "] = " << cu[s + 1]);
  }
  SSA_CHECK(cu[sequences] == length, "attention: " << name << "[" << sequences
                                                   << "] must be the length " << length << ", got "
                                                   << cu[sequences]);
}

template <class T>
void check_packed(const AttentionArgs<T>& args) {
  SSA_CHECK((args.cu_query == nullptr) == (args.cu_key == nullptr),
            "attention: cu_query and cu_key must be given together");
  if (args.cu_query == nullptr) return;
  SSA_CHECK(args.batch == 1, "attention: packed sequences need a batch of 1, got " << args.batch);
  SSA_CHECK(args.mask.data == nullptr && args.bias.data == nullptr && args.key_lengths == nullptr,
            "attention: packed sequences take no mask, bias or key_lengths");
  SSA_CHECK(args.sequences >= 0, "attention: sequences must be >= 0, got " << args.sequences);
  check_cumulative("cu_query", args.cu_query, args.sequences, args.query_length);
  check_cumulative("cu_key", args.cu_key, args.sequences, args.key_length);
}

}  // namespace

template <class T>
const ScoreInfo& check_args(const AttentionArgs<T>& args) {
  const ScoreInfo& score = find_score(args.score);
  SSA_CHECK(
      score.family == ScoreFamily::kPhi,
      "attention: score " << score.name << " is not of the phi family, which alone has kernels");
  check_sizes(args);
  check_params(args, score);
  check_data(args);
  check_packed(args);
  return score;
}

void check_given(const char* what, const void* data, std::int64_t elements) {
  SSA_CHECK(data != nullptr || elements == 0, what << " has no data");
}

template <class T>
void check_results(const AttentionArgs<T>& args, const void* out, const void* lse) {
  const std::int64_t rows = args.batch * args.query_heads * args.query_length;
  check_given("attention: out", out, rows * args.v_dim);
  check_given("attention: lse", lse, rows);
}

template <class T>
void check_backward_inputs(const AttentionArgs<T>& args, const void* out, const void* lse,
                           const void* d_out) {
  check_results(args, out, lse);
  check_given("attention: d_out", d_out,
              args.batch * args.query_heads * args.query_length * args.v_dim);
}

template const ScoreInfo& check_args(const AttentionArgs<float>& args);
template const ScoreInfo& check_args(const AttentionArgs<BFloat16>& args);
template const ScoreInfo& check_args(const AttentionArgs<double>& args);
template void check_results(const AttentionArgs<float>&, const void*, const void*);
template void check_results(const AttentionArgs<BFloat16>&, const void*, const void*);
template void check_results(const AttentionArgs<double>&, const void*, const void*);
template void check_backward_inputs(const AttentionArgs<float>&, const void*, const void*,
                                    const void*);
template void check_backward_inputs(const AttentionArgs<BFloat16>&, const void*, const void*,
                                    const void*);

}  // namespace ssa
