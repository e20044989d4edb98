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
#include "kernels/check_args.h"
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

/// Runs the heads h (batch · query_heads + head) for which wanted(h).
template <class T, class Wanted>
void run_heads(const AttentionArgs<T>& args, const ForwardOutputs<T>& outputs,
               const Parallel& parallel, Wanted&& wanted) {
  std::vector<std::int64_t> heads;
  for (std::int64_t h = 0; h < args.batch * args.query_heads; ++h) {
    if (wanted(h)) heads.push_back(h);
  }
  if (heads.empty() || args.query_length == 0) return;
  // Heads alone when there are enough of them; otherwise queries are split too. A chunk packs its
  // keys anew, which for 32 rows costs about as much as a tenth of its products.
  constexpr std::int64_t kTasksPerThread = 4, kSmallestChunk = 32;
  const auto count = static_cast<std::int64_t>(heads.size());
  const std::int64_t wanted_chunks = (kTasksPerThread * parallel.threads + count - 1) / count;
  const std::int64_t rows =
      std::max(kSmallestChunk, (args.query_length + wanted_chunks - 1) / wanted_chunks);
  const std::int64_t chunks = (args.query_length + rows - 1) / rows;
  parallel.run(chunks * count, [&](std::int64_t t) {
    // Under causality the last queries cost most: they go first.
    const std::int64_t first = (chunks - 1 - t / count) * rows, head = heads[t % count];
    const ForwardTask task{head / args.query_heads, head % args.query_heads, first,
                           std::min(first + rows, args.query_length)};
    dispatch(args, outputs, task);
  });
}

}  // namespace

template <class T>
void general_forward(const AttentionArgs<T>& args, const View4<T>& out, float* lse,
                     const Parallel& parallel) {
  run_heads<T>(args, {.out = out, .lse = lse}, parallel, [](std::int64_t) { return true; });
}

void attention_forward(const AttentionArgs<float>& args, const View4<float>& out, float* lse,
                       const Parallel& parallel) {
  check_args(args);
  if (is_decoding(args)) return decode(args, out, lse, parallel);
  choose_target();
  general_forward(args, out, lse, parallel);
}

void attention_forward(const AttentionArgs<BFloat16>& args, const View4<BFloat16>& out, float* lse,
                       const Parallel& parallel) {
  check_args(args);
  if (is_decoding(args)) return decode(args, out, lse, parallel);
  if (!has_bfloat16_products()) return widened_forward(args, out, lse, parallel);
  general_forward(args, out, lse, parallel);
}

template <class T>
Lse2 exact_lse2(const AttentionArgs<T>& args, const float* lse, const Parallel& parallel) {
  // At 16 the rounding of lse is 1e-6 of every weight. BFloat16 has 4e-3 of its own.
  constexpr float kLargest = std::is_same_v<T, BFloat16> ? 4096.0f : 16.0f;
  const std::int64_t heads = args.batch * args.query_heads, rows = args.query_length;
  Lse2 result;
  result.exact.resize(static_cast<std::size_t>(heads));
  bool any = false;
  for (std::int64_t h = 0; h < heads; ++h) {
    result.exact[h] = std::any_of(lse + h * rows, lse + (h + 1) * rows, [&](float value) {
      return std::abs(value) > kLargest && std::isfinite(value);
    });
    any = any || result.exact[h];
  }
  if (!any) return result;
  result.high.resize(static_cast<std::size_t>(heads * rows));
  result.low.resize(static_cast<std::size_t>(heads * rows));
  run_heads<T>(args, {.lse2_high = result.high.data(), .lse2_low = result.low.data()}, parallel,
               [&](std::int64_t h) { return result.exact[h] != 0; });
  return result;
}

template void general_forward(const AttentionArgs<float>&, const View4<float>&, float*,
                              const Parallel&);
template void general_forward(const AttentionArgs<BFloat16>&, const View4<BFloat16>&, float*,
                              const Parallel&);
template Lse2 exact_lse2(const AttentionArgs<float>&, const float*, const Parallel&);
template Lse2 exact_lse2(const AttentionArgs<BFloat16>&, const float*, const Parallel&);

}  // namespace ssa
#endif  // HWY_ONCE
