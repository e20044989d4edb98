// The forward pass: splits it into tasks and dispatches each to the best instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_forward.cc"
// clang-format off: foreach_target.h comes first
#include <hwy/foreach_target.h>
// clang-format on
#include "kernels/attention_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

template <class T>
void forward_task(const AttentionArgs<T>& args, const ForwardOutputs<T>& outputs,
                  const ForwardTask& task) {
  for_each_score(ScoreList{}, [&](auto score) {
    if (decltype(score)::kName == args.score) {
      Forward<decltype(score), T>(args, outputs, task).run();
    }
  });
}

void float_forward(const AttentionArgs<float>& args, const ForwardOutputs<float>& outputs,
                   const ForwardTask& task) {
  forward_task(args, outputs, task);
}

/// Only where has_bfloat16_products().
void bfloat16_forward([[maybe_unused]] const AttentionArgs<BFloat16>& args,
                      [[maybe_unused]] const ForwardOutputs<BFloat16>& outputs,
                      [[maybe_unused]] const ForwardTask& task) {
#if HWY_TARGET <= HWY_AVX3
  forward_task(args, outputs, task);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/attention_decode.h"
#include "kernels/band.h"
#include "kernels/check_args.h"
#include "kernels/packed.h"
#include "kernels/target.h"
#include "kernels/widened.h"

namespace ssa {

HWY_EXPORT(float_forward);
HWY_EXPORT(bfloat16_forward);

namespace {

void dispatch(const AttentionArgs<float>& args, const ForwardOutputs<float>& outputs,
              const ForwardTask& task) {
  HWY_DYNAMIC_DISPATCH(float_forward)(args, outputs, task);
}
void dispatch(const AttentionArgs<BFloat16>& args, const ForwardOutputs<BFloat16>& outputs,
              const ForwardTask& task) {
  HWY_DYNAMIC_DISPATCH(bfloat16_forward)(args, outputs, task);
}

struct PartTask {
  std::size_t part;
  ForwardTask task;
  std::int64_t work;
};

/// Runs the heads for which wanted(part, b · query_heads + h); outputs(part) says where to.
template <class T, class Wanted, class Outputs>
void run_heads(const std::vector<Part<T>>& parts, const Parallel& parallel, Wanted&& wanted,
               Outputs&& outputs) {
  std::vector<PartTask> tasks;
  std::int64_t all_rows = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const AttentionArgs<T>& args = parts[p].args;
    for (std::int64_t h = 0; h < args.batch * args.query_heads && args.query_length > 0; ++h) {
      if (!wanted(p, h)) continue;
      tasks.push_back({p, {h / args.query_heads, h % args.query_heads, 0, args.query_length}, 0});
      all_rows += args.query_length;
    }
  }
  // Heads alone when there are enough of them; otherwise queries are split too. A chunk packs its
  // keys anew, which for 32 rows costs about as much as a tenth of its products.
  constexpr std::int64_t kTasksPerThread = 4, kSmallestChunk = 32;
  const std::int64_t share =
      std::max<std::int64_t>(1, all_rows / (kTasksPerThread * parallel.threads));
  for (std::size_t t = 0, heads = tasks.size(); t < heads; ++t) {
    const ForwardTask head = tasks[t].task;
    const std::int64_t chunks = (head.last + share - 1) / share;
    const std::int64_t rows = std::max(kSmallestChunk, (head.last + chunks - 1) / chunks);
    tasks[t].task.last = std::min(rows, head.last);
    for (std::int64_t first = rows; first < head.last; first += rows) {
      const std::int64_t last = std::min(first + rows, head.last);
      tasks.push_back({tasks[t].part, {head.batch, head.head, first, last}, 0});
    }
  }
  // What costs most goes first, so that no thread is left with it at the end.
  for (PartTask& each : tasks) {
    const Band band(parts[each.part].args, each.task.batch);
    each.work = (each.task.last - each.task.first) *
                (band.limit(each.task.last - 1) - band.start(each.task.first));
  }
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const PartTask& a, const PartTask& b) { return a.work > b.work; });
  parallel.run(static_cast<std::int64_t>(tasks.size()), [&](std::int64_t t) {
    dispatch(parts[tasks[t].part].args, outputs(parts[tasks[t].part]), tasks[t].task);
  });
}

}  // namespace

template <class T>
void general_forward(const AttentionArgs<T>& args, const View4<T>& out, float* lse,
                     const Parallel& parallel) {
  run_heads(
      parts_of(args), parallel, [](std::size_t, std::int64_t) { return true; },
      [&](const Part<T>& part) {
        return ForwardOutputs<T>{.out = part.queries(out), .lse = part.rows(lse)};
      });
}

void attention_forward(const AttentionArgs<float>& args, const View4<float>& out, float* lse,
                       const Parallel& parallel) {
  check_args(args);
  check_results(args, out.data, lse);
  if (is_decoding(args)) return decode(args, out, lse, parallel);
  choose_target();
  general_forward(args, out, lse, parallel);
}

void attention_forward(const AttentionArgs<BFloat16>& args, const View4<BFloat16>& out, float* lse,
                       const Parallel& parallel) {
  check_args(args);
  check_results(args, out.data, lse);
  if (is_decoding(args)) return decode(args, out, lse, parallel);
  if (!has_bfloat16_products()) return widened_forward(args, out, lse, parallel);
  general_forward(args, out, lse, parallel);
}

template <class T>
Lse2 exact_lse2(const std::vector<Part<T>>& parts, std::int64_t lse_size, const float* lse,
                const Parallel& parallel) {
  // At 16 the rounding of lse is 1e-6 of every weight. BFloat16 has 4e-3 of its own.
  constexpr float kLargest = std::is_same_v<T, BFloat16> ? 4096.0f : 16.0f;
  Lse2 result;
  std::vector<std::size_t> first_head;  // of each part in result.exact
  bool any = false;
  for (const Part<T>& part : parts) {
    first_head.push_back(result.exact.size());
    for (std::int64_t b = 0; b < part.args.batch; ++b) {
      for (std::int64_t h = 0; h < part.args.query_heads; ++h) {
        const float* rows = part.rows(lse) + part.args.lse_offset(b, h);
        result.exact.push_back(std::any_of(rows, rows + part.args.query_length, [&](float value) {
          return std::abs(value) > kLargest && std::isfinite(value);
        }));
        any = any || result.exact.back();
      }
    }
  }
  if (!any) return result;
  result.high.resize(static_cast<std::size_t>(lse_size));
  result.low.resize(static_cast<std::size_t>(lse_size));
  run_heads(
      parts, parallel,
      [&](std::size_t p, std::int64_t h) { return result.exact[first_head[p] + h] != 0; },
      [&](const Part<T>& part) {
        return ForwardOutputs<T>{.lse2_high = part.rows(result.high.data()),
                                 .lse2_low = part.rows(result.low.data())};
      });
  return result;
}

template void general_forward(const AttentionArgs<float>&, const View4<float>&, float*,
                              const Parallel&);
template void general_forward(const AttentionArgs<BFloat16>&, const View4<BFloat16>&, float*,
                              const Parallel&);
template Lse2 exact_lse2(const std::vector<Part<float>>&, std::int64_t, const float*,
                         const Parallel&);
template Lse2 exact_lse2(const std::vector<Part<BFloat16>>&, std::int64_t, const float*,
                         const Parallel&);

}  // namespace ssa
#endif  // HWY_ONCE
