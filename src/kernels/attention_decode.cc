// Attention of few queries: splits it into tasks and dispatches each to the best instruction set.
#include "kernels/attention_decode.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_decode.cc"
// clang-format off: foreach_target.h comes first
#include <hwy/foreach_target.h>
// clang-format on
#include "kernels/attention_decode-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ssa {
namespace HWY_NAMESPACE {

template <class T>
void decode_chunk(const AttentionArgs<T>& args, const DecodeTask& task, Index chunk) {
  for_each_score(ScoreList{}, [&]<class Score>(Score) {
    if (Score::kName == args.score) DecodeChunk<Score, T>(args, task, chunk).run();
  });
}

template <class T>
void decode_merge(const AttentionArgs<T>& args, const DecodeTask& task, const View4<T>& out,
                  float* lse) {
  for_each_score(ScoreList{}, [&]<class Score>(Score) {
    if (Score::kName != args.score) return;
    for (Index r = 0; r < task.rows; ++r) merge_chunks<Score>(args, task, r, out, lse);
  });
}

void float_chunk(const AttentionArgs<float>& args, const DecodeTask& task, Index chunk) {
  decode_chunk(args, task, chunk);
}
void float_merge(const AttentionArgs<float>& args, const DecodeTask& task, const View4<float>& out,
                 float* lse) {
  decode_merge(args, task, out, lse);
}
void bfloat16_chunk(const AttentionArgs<BFloat16>& args, const DecodeTask& task, Index chunk) {
  decode_chunk(args, task, chunk);
}
void bfloat16_merge(const AttentionArgs<BFloat16>& args, const DecodeTask& task,
                    const View4<BFloat16>& out, float* lse) {
  decode_merge(args, task, out, lse);
}

}  // namespace HWY_NAMESPACE
}  // namespace ssa
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <atomic>
#include <memory>
#include <vector>

#include "kernels/target.h"

namespace ssa {

HWY_EXPORT(float_chunk);
HWY_EXPORT(float_merge);
HWY_EXPORT(bfloat16_chunk);
HWY_EXPORT(bfloat16_merge);

template <class T>
void decode(const AttentionArgs<T>& args, const View4<T>& out, float* lse,
            const Parallel& parallel) {
  constexpr bool kFloat = std::is_same_v<T, float>;
  const std::int64_t heads = args.batch * args.kv_heads;
  if (heads == 0 || args.query_length == 0) return;
  choose_target();
  const std::int64_t chunks =
      std::max<std::int64_t>(1, (args.key_length + kDecodeChunk - 1) / kDecodeChunk);
  DecodeTask shape{};
  shape.rows = args.query_heads / args.kv_heads * args.query_length;
  shape.chunks = chunks;
  shape.row_size = DecodeTask::kStatistics + (args.v_dim + 15) / 16 * 16;
  const std::int64_t size = chunks * shape.rows * shape.row_size;
  const auto partials =
      std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(heads * size));
  std::vector<std::atomic<std::int64_t>> done(static_cast<std::size_t>(heads));
  parallel.run(heads * chunks, [&](std::int64_t t) {
    const std::int64_t head = t / chunks, chunk = t % chunks;
    DecodeTask task = shape;
    task.batch = head / args.kv_heads;
    task.kv = head % args.kv_heads;
    task.partials = partials.get() + head * size;
    if constexpr (kFloat) {
      HWY_DYNAMIC_DISPATCH(float_chunk)(args, task, chunk);
    } else {
      HWY_DYNAMIC_DISPATCH(bfloat16_chunk)(args, task, chunk);
    }
    if (++done[head] < chunks) return;  // whoever finishes a head's last chunk merges them
    if constexpr (kFloat) {
      HWY_DYNAMIC_DISPATCH(float_merge)(args, task, out, lse);
    } else {
      HWY_DYNAMIC_DISPATCH(bfloat16_merge)(args, task, out, lse);
    }
  });
}

template void decode(const AttentionArgs<float>&, const View4<float>&, float*, const Parallel&);
template void decode(const AttentionArgs<BFloat16>&, const View4<BFloat16>&, float*,
                     const Parallel&);

}  // namespace ssa
#endif  // HWY_ONCE
