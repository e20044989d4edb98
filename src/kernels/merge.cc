#include "ssa/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/check_args.h"
#include "kernels/plain_loops.h"
#include "ssa/check.h"

// As plain_loops.h: what inlines the scores is compiled for their target.
HWY_BEFORE_NAMESPACE();
namespace ssa {
namespace {

template <class T>
constexpr T kNothing = -std::numeric_limits<T>::infinity();

template <class S>
void check_merge(const AttentionProblem<S>& problem) {
  AttentionArgs<S> args;
  static_cast<AttentionProblem<S>&>(args) = problem;
  args.kv_heads = args.query_heads;  // what only the parts' own calls need
  args.key_length = args.qk_dim = 0;
  args.key_lengths = nullptr;
  args.query.data = nullptr;
  check_args(args);
}

/// z of a score's term e^z of the normaliser, −inf without one.
template <class S>
S sink_of(const AttentionProblem<S>& problem, std::int64_t head) {
  S sink = kNothing<S>;
  for_score(problem.score, [&]<class Score>(Score) {
    if constexpr (HWY_NAMESPACE::kHasSink<Score>) {
      ParamValues<S> params{};
      for (std::size_t k = 0; k < Score::kParams.size(); ++k) {
        params[k] = problem.params[k].data[head * problem.params[k].stride];
      }
      sink = Score::sink2(ScalarMath<S>{}, params.data()) * static_cast<S>(HWY_NAMESPACE::kLn2);
    }
  });
  return sink;
}

/// lse holds each part's; becomes their weights. Returns the lse of all.
template <class S>
S weigh(S sink, std::vector<S>& lse) {
  S largest = kNothing<S>;
  for (const S each : lse) largest = std::max(largest, each);
  const S reference = std::max(largest, sink);
  S total = 0, weight_total = 0;
  const S extra = sink == kNothing<S> ? 0 : std::exp(sink - reference);
  for (S& each : lse) {
    if (each == kNothing<S>) {
      each = 0;
      continue;
    }
    total += std::exp(each - largest);
    const S share = std::exp(each - reference);
    weight_total += share;
    each = share + extra;
  }
  for (S& each : lse) each /= weight_total + extra;
  return largest + std::log(total);
}

}  // namespace

template <class T>
void merge(const AttentionProblem<ScoreType<T>>& problem, std::span<const AttentionPart<T>> parts,
           const View4<T>& out, ScoreType<T>* lse, const Parallel& parallel) {
  using S = ScoreType<T>;
  check_merge(problem);
  SSA_CHECK(!parts.empty(), "merge: parts must not be empty");
  const std::int64_t rows = problem.batch * problem.query_heads * problem.query_length;
  check_given("merge: out", out.data, rows * problem.v_dim);
  check_given("merge: lse", lse, rows);
  for (const AttentionPart<T>& part : parts) {
    check_given("merge: a part's out", part.out.data, rows * problem.v_dim);
    check_given("merge: a part's lse", part.lse, rows);
  }
  parallel.run(problem.batch * problem.query_heads, [&](std::int64_t at) {
    const std::int64_t b = at / problem.query_heads, h = at % problem.query_heads;
    const S sink = sink_of(problem, h);
    std::vector<S> weights(parts.size());
    for (std::int64_t i = 0; i < problem.query_length; ++i) {
      const std::int64_t row = at * problem.query_length + i;
      for (std::size_t k = 0; k < parts.size(); ++k) weights[k] = parts[k].lse[row];
      const auto sees = [&](S each) { return each != kNothing<S>; };
      const bool any = std::any_of(weights.begin(), weights.end(), sees);
      const S whole = any ? weigh(sink, weights) : kNothing<S>;
      for (std::int64_t d = 0; d < problem.v_dim; ++d) {
        S sum = 0;
        for (std::size_t k = 0; k < parts.size(); ++k) {
          if (sees(parts[k].lse[row])) {
            sum += weights[k] * static_cast<S>(*parts[k].out.at(b, h, i, d));
          }
        }
        *out.at(b, h, i, d) = static_cast<T>(sum);
      }
      lse[row] = whole;
    }
  });
}

template void merge(const AttentionProblem<float>&, std::span<const AttentionPart<float>>,
                    const View4<float>&, float*, const Parallel&);
template void merge(const AttentionProblem<float>&, std::span<const AttentionPart<BFloat16>>,
                    const View4<BFloat16>&, float*, const Parallel&);
template void merge(const AttentionProblem<double>&, std::span<const AttentionPart<double>>,
                    const View4<double>&, double*, const Parallel&);

}  // namespace ssa
HWY_AFTER_NAMESPACE();
