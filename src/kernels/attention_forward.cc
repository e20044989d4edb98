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

void forward_task(const AttentionArgs<float>& args, const View4<float>& out, float* lse,
                  const ForwardTask& task) {
  for_each_score(ScoreList{}, [&](auto score) {
    if (decltype(score)::kName == args.score) Forward<decltype(score)>(args, out, lse, task).run();
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/check_args.h"
#include "kernels/target.h"

namespace ssa {

HWY_EXPORT(forward_task);

void attention_forward(const AttentionArgs<float>& args, const View4<float>& out, float* lse,
                       const Parallel& parallel) {
  check_args(args);
  choose_target();
  // Heads alone when there are enough of them; otherwise queries are split too. A chunk packs its
  // keys anew, which for 32 rows costs about as much as a tenth of its products.
  constexpr std::int64_t kTasksPerThread = 4, kSmallestChunk = 32;
  const std::int64_t heads = args.batch * args.query_heads;
  if (heads == 0 || args.query_length == 0) return;
  const std::int64_t wanted = (kTasksPerThread * parallel.threads + heads - 1) / heads;
  const std::int64_t rows = std::max(kSmallestChunk, (args.query_length + wanted - 1) / wanted);
  const std::int64_t chunks = (args.query_length + rows - 1) / rows;
  parallel.run(chunks * heads, [&](std::int64_t t) {
    // Under causality the last queries cost most: they go first.
    const std::int64_t first = (chunks - 1 - t / heads) * rows;
    const ForwardTask task{t % heads / args.query_heads, t % args.query_heads, first,
                           std::min(first + rows, args.query_length)};
    HWY_DYNAMIC_DISPATCH(forward_task)(args, out, lse, task);
  });
}

}  // namespace ssa
#endif  // HWY_ONCE
