// Attention of few queries, as in decoding: one token against a cache of keys.
#pragma once

#include "ssa/attention.h"

namespace ssa {

/// Whether this kernel, which reads keys and values once and has no panels of keys, is the faster.
template <class T>
bool is_decoding(const AttentionProblem<T>& problem) {
  return problem.query_length <= 4 && problem.cu_query == nullptr && problem.dropout == 0 &&
         problem.window == 0;
}

/// attention_forward for float and BFloat16; the arguments are checked. The result does not depend
/// on the number of threads.
template <class T>
void decode(const AttentionArgs<T>& args, const View4<T>& out, float* lse,
            const Parallel& parallel);

/// Keys of a task. Starting one takes the time of about ten keys.
inline constexpr std::int64_t kDecodeChunk = 512;

/// A row's result over one chunk: Σ p·v (whole vectors), Σ p and the reference, with
/// p = 2^(φ2 − reference). It saw no key where the total is 0: then the sums may hold anything.
struct DecodePartial {
  float* sums;

  float& total() const { return sums[-1]; }
  float& reference() const { return sums[-2]; }
};

/// The chunks of all query rows (query head of the group · query_length + query) of one kv head.
struct DecodeTask {
  std::int64_t batch, kv;
  std::int64_t rows, chunks;
  std::int64_t row_size;  ///< floats of a partial result
  float* partials;        ///< (chunks, rows, row_size)

  DecodePartial partial(std::int64_t chunk, std::int64_t row) const {
    return {partials + (chunk * rows + row) * row_size + kStatistics};
  }
  static constexpr std::int64_t kStatistics = 16;  ///< floats before the sums: a cache line
};

}  // namespace ssa
