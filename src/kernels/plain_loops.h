// Attention by plain loops, row by row, in any floating-point type. In double it is the oracle of
// every test (reference.cc); in float it is what tests take for a plain implementation's error.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/check_args.h"
#include "kernels/packed.h"
#include "ssa/philox.h"
#include "ssa/scores-inl.h"

// The scores are compiled for the processor's own Highway target; so must be what inlines them.
HWY_BEFORE_NAMESPACE();
namespace ssa {

/// The primitives of scores-inl.h for one number.
template <class T>
struct ScalarMath {
  T constant(double value) const { return static_cast<T>(value); }
  T add(T a, T b) const { return a + b; }
  T sub(T a, T b) const { return a - b; }
  T mul(T a, T b) const { return a * b; }
  T abs(T a) const { return std::abs(a); }
  T copy_sign(T magnitude, T sign) const { return std::copysign(magnitude, sign); }
  T recip(T a) const { return 1 / a; }
  T log2_1p(T x) const { return std::log1p(x) * static_cast<T>(HWY_NAMESPACE::kLog2E); }
  T tanh(T x) const { return std::tanh(x); }
};

template <class T>
using ParamValues = std::array<T, kMaxScoreParams>;

/// What the score's functions take: the parameters of head h, then ln N where it counts keys.
template <class Score, class T>
ParamValues<T> head_params(const AttentionArgs<T>& args, std::int64_t h, std::int64_t keys_seen) {
  ParamValues<T> values{};
  for (std::size_t k = 0; k < Score::kParams.size(); ++k) {
    values[k] = args.params[k].data[h * args.params[k].stride];
  }
  if constexpr (HWY_NAMESPACE::kCountsKeys<Score>) {
    values[Score::kParams.size()] = std::log(static_cast<T>(std::max<std::int64_t>(1, keys_seen)));
  }
  return values;
}

/// One query row: scores, weights and normaliser.
template <class T>
struct PlainRow {
  std::vector<bool> visible;
  std::vector<T> score;
  std::vector<T> share;     ///< of a key in the sum over keys; times `kept`: its weight
  std::vector<T> factor;    ///< of the weight in out: dropout
  T lse = 0;                ///< without the sink
  T kept = 1, sink = 0;     ///< shares of keys and sink in the whole normaliser
  ParamValues<T> params{};  ///< see head_params
};

/// 0 or 1/(1 - dropout) for every key of the row; 1 without dropout.
template <class T>
std::vector<T> dropout_factors(const AttentionArgs<T>& args, std::int64_t b, std::int64_t h,
                               std::int64_t i) {
  std::vector<T> factors(static_cast<std::size_t>(args.key_length), 1);
  for (std::size_t j = 0; j < factors.size() && args.dropout > 0; ++j) {
    const auto words = dropout_words(args.seed, static_cast<std::uint32_t>(args.first_sequence + b),
                                     static_cast<std::uint32_t>(h), static_cast<std::uint32_t>(i),
                                     static_cast<std::uint32_t>(j / kDropoutGroup));
    const bool falls = words[j % kDropoutGroup] < dropout_threshold(args.dropout);
    factors[j] = falls ? T{0} : static_cast<T>(1 / (1 - args.dropout));
  }
  return factors;
}

template <class Score, class T>
void plain_row(const AttentionArgs<T>& args, std::int64_t b, std::int64_t h, std::int64_t i,
               PlainRow<T>& row) {
  constexpr T kNone = -std::numeric_limits<T>::infinity();
  const std::int64_t kv = h / (args.query_heads / args.kv_heads);
  const std::int64_t keys = args.key_lengths == nullptr ? args.key_length : args.key_lengths[b];
  const std::int64_t position = i + args.key_length - args.query_length;

  const auto size = static_cast<std::size_t>(args.key_length);
  row.visible.assign(size, false);
  row.score.assign(size, kNone);
  row.share.assign(size, 0);
  row.factor = dropout_factors(args, b, h, i);
  std::int64_t keys_seen = 0;
  for (std::int64_t j = 0; j < keys; ++j) {
    if (args.causal && j > position) continue;
    if (args.window > 0 && std::abs(position - j) >= args.window) continue;
    const T bias = args.bias.data == nullptr ? T{0} : *args.bias.at(b, h, i, j);
    if ((args.mask.data != nullptr && !*args.mask.at(b, h, i, j)) || bias == kNone) continue;
    ++keys_seen;
    T dot = 0;
    for (std::int64_t d = 0; d < args.qk_dim; ++d) {
      dot += *args.query.at(b, h, i, d) * *args.key.at(b, kv, j, d);
    }
    T score = args.scale * dot + bias;
    if (args.alibi_slopes.data != nullptr) {
      score -= args.alibi_slopes.data[h * args.alibi_slopes.stride] *
               static_cast<T>(std::abs(position - j));
    }
    if (score == kNone) continue;
    row.visible[j] = true;
    row.score[j] = score;
  }
  row.params = head_params<Score>(args, h, keys_seen);
  row.kept = 1;
  row.sink = 0;
  T largest = kNone;
  bool any = false;
  for (std::size_t j = 0; j < size; ++j) {
    if (!row.visible[j]) continue;
    any = true;
    row.share[j] = Score::phi2(ScalarMath<T>{}, row.score[j], row.params.data());
    largest = std::max(largest, row.share[j]);
  }
  if (!any) {
    row.lse = kNone;
    return;
  }
  T sum = 0;
  for (std::size_t j = 0; j < size; ++j) {
    if (!row.visible[j]) continue;
    row.share[j] = std::exp2(row.share[j] - largest);
    sum += row.share[j];
  }
  for (std::size_t j = 0; j < size; ++j) row.share[j] /= sum;
  if constexpr (HWY_NAMESPACE::kHasSink<Score>) {
    const T extra = std::exp2(Score::sink2(ScalarMath<T>{}, row.params.data()) - largest);
    row.kept = 1 / (1 + extra / sum);
    row.sink = 1 / (1 + sum / extra);
  }
  row.lse = largest * static_cast<T>(HWY_NAMESPACE::kLn2) + std::log(sum);
}

/// Calls f(b, h, i) for every query row.
template <class T, class F>
void for_each_row(const AttentionArgs<T>& args, F&& f) {
  for (std::int64_t b = 0; b < args.batch; ++b) {
    for (std::int64_t h = 0; h < args.query_heads; ++h) {
      for (std::int64_t i = 0; i < args.query_length; ++i) f(b, h, i);
    }
  }
}

template <class Score, class T>
void plain_forward_of(const AttentionArgs<T>& args, const View4<T>& out, T* lse) {
  PlainRow<T> row;
  for_each_row(args, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const std::int64_t kv = h / (args.query_heads / args.kv_heads);
    plain_row<Score>(args, b, h, i, row);
    lse[args.lse_offset(b, h) + i] = row.lse;
    for (std::int64_t d = 0; d < args.v_dim; ++d) {
      T sum = 0;
      for (std::int64_t j = 0; j < args.key_length; ++j) {
        if (!row.visible[j]) continue;
        sum += row.kept * row.share[j] * row.factor[j] * *args.value.at(b, kv, j, d);
      }
      *out.at(b, h, i, d) = sum;
    }
  });
}

/// Adds ∂sink/∂(every parameter) · d_sink to the sums of this head.
template <class Score, class T, std::size_t... kParam>
void add_sink_gradients(std::index_sequence<kParam...>, [[maybe_unused]] T d_sink,
                        const ParamValues<T>& params, ParamValues<T>& sums) {
  ((sums[kParam] += d_sink * Score::template dsink_dparam<static_cast<int>(kParam)>(ScalarMath<T>{},
                                                                                    params.data())),
   ...);
}

/// Adds ∂φ/∂(every parameter) · dphi to the sums of this head.
template <class Score, class T, std::size_t... kParam>
void add_param_gradients(std::index_sequence<kParam...>, [[maybe_unused]] T score,
                         [[maybe_unused]] T dphi, const ParamValues<T>& params,
                         ParamValues<T>& sums) {
  ((sums[kParam] += dphi * Score::template dphi_dparam<static_cast<int>(kParam)>(
                               ScalarMath<T>{}, score, params.data())),
   ...);
}

template <class T>
void fill_zero(const View4<T>& view, std::array<std::int64_t, 4> sizes) {
  if (view.data == nullptr) return;
  for (std::int64_t i0 = 0; i0 < sizes[0]; ++i0) {
    for (std::int64_t i1 = 0; i1 < sizes[1]; ++i1) {
      for (std::int64_t i2 = 0; i2 < sizes[2]; ++i2) {
        for (std::int64_t i3 = 0; i3 < sizes[3]; ++i3) *view.at(i0, i1, i2, i3) = 0;
      }
    }
  }
}

template <class T>
void fill_zero(const AttentionArgs<T>& args, const AttentionGradients<T>& gradients) {
  fill_zero(gradients.query, {args.batch, args.query_heads, args.query_length, args.qk_dim});
  fill_zero(gradients.key, {args.batch, args.kv_heads, args.key_length, args.qk_dim});
  fill_zero(gradients.value, {args.batch, args.kv_heads, args.key_length, args.v_dim});
  fill_zero(gradients.bias, {args.batch, args.query_heads, args.query_length, args.key_length});
  for (const HeadValues<T>& values : gradients.params) {
    if (values.data == nullptr) continue;
    for (std::int64_t h = 0; h < args.query_heads; ++h) values.data[h * values.stride] = 0;
  }
}

/// Adds to the gradients.
template <class Score, class T>
void plain_backward_of(const AttentionArgs<T>& args, const View4<const T>& d_out, const T* d_lse,
                       const AttentionGradients<T>& gradients) {
  PlainRow<T> row;
  std::vector<T> d_weight(static_cast<std::size_t>(args.key_length));
  for_each_row(args, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const std::int64_t kv = h / (args.query_heads / args.kv_heads);
    plain_row<Score>(args, b, h, i, row);
    T delta = 0;
    for (std::int64_t j = 0; j < args.key_length; ++j) {
      if (!row.visible[j]) continue;
      d_weight[j] = 0;
      for (std::int64_t d = 0; d < args.v_dim; ++d) {
        d_weight[j] += *d_out.at(b, h, i, d) * *args.value.at(b, kv, j, d);
        if (gradients.value.data != nullptr) {
          *gradients.value.at(b, kv, j, d) +=
              row.kept * row.share[j] * row.factor[j] * *d_out.at(b, h, i, d);
        }
      }
      d_weight[j] *= row.factor[j];
      delta += row.kept * row.share[j] * d_weight[j];
    }
    const T dl = d_lse == nullptr ? T{0} : d_lse[args.lse_offset(b, h) + i];
    ParamValues<T> param_sums{};
    if constexpr (HWY_NAMESPACE::kHasSink<Score>) {
      add_sink_gradients<Score>(std::make_index_sequence<Score::kParams.size()>(),
                                -row.sink * delta, row.params, param_sums);
    }
    for (std::int64_t j = 0; j < args.key_length; ++j) {
      if (!row.visible[j]) continue;
      const T score = row.score[j];
      const T dphi = row.share[j] * (row.kept * (d_weight[j] - delta) + dl);
      const T ds = dphi * Score::dphi_ds(ScalarMath<T>{}, score, row.params.data());
      add_param_gradients<Score>(std::make_index_sequence<Score::kParams.size()>(), score, dphi,
                                 row.params, param_sums);
      if (gradients.bias.data != nullptr) *gradients.bias.at(b, h, i, j) += ds;
      for (std::int64_t d = 0; d < args.qk_dim; ++d) {
        if (gradients.query.data != nullptr) {
          *gradients.query.at(b, h, i, d) += ds * args.scale * *args.key.at(b, kv, j, d);
        }
        if (gradients.key.data != nullptr) {
          *gradients.key.at(b, kv, j, d) += ds * args.scale * *args.query.at(b, h, i, d);
        }
      }
    }
    for (std::size_t k = 0; k < kMaxScoreParams; ++k) {
      const HeadValues<T>& values = gradients.params[k];
      if (values.data != nullptr) values.data[h * values.stride] += param_sums[k];
    }
  });
}

/// Calls f(Score{}) for the score of that name.
template <class F>
void for_score(std::string_view name, F&& f) {
  HWY_NAMESPACE::for_each_score(HWY_NAMESPACE::ScoreList{}, [&](auto score) {
    if (decltype(score)::kName == name) f(score);
  });
}

template <class T>
void plain_forward(const AttentionArgs<T>& args, const View4<T>& out, T* lse) {
  check_args(args);
  check_results(args, out.data, lse);
  for_score(args.score, [&](auto score) {
    for (const Part<T>& part : parts_of(args)) {
      plain_forward_of<decltype(score)>(part.args, part.queries(out), part.rows(lse));
    }
  });
}

template <class T>
void plain_backward(const AttentionArgs<T>& args, const View4<const T>& d_out, const T* d_lse,
                    const AttentionGradients<T>& gradients) {
  check_args(args);
  fill_zero(args, gradients);
  for_score(args.score, [&](auto score) {
    for (const Part<T>& part : parts_of(args)) {
      plain_backward_of<decltype(score)>(part.args, part.queries(d_out), part.rows(d_lse),
                                         part.gradients(gradients));
    }
  });
}

}  // namespace ssa
HWY_AFTER_NAMESPACE();
