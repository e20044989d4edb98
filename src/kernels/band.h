// Which keys a query may see by its position alone: causality, window and key_lengths make them a
// band of the (query, key) matrix whose both edges move to the right from row to row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ssa/attention.h"

namespace ssa {

struct Band {
  std::int64_t rows, keys;     ///< this sequence has keys [0, keys)
  std::int64_t shift;          ///< query i stands at key position i + shift
  std::int64_t before, after;  ///< query at p sees keys [p - before, p + after]

  template <class T>
  Band(const AttentionProblem<T>& args, std::int64_t batch)
      : rows(args.query_length),
        keys(args.key_lengths == nullptr ? args.key_length : args.key_lengths[batch]),
        shift(args.key_length - args.query_length),
        before(args.query_length + args.key_length),  // beyond any distance
        after(args.causal ? 0 : before) {
    if (args.window > 0) {
      before = std::min(before, args.window - 1);
      after = std::min(after, args.window - 1);
    }
  }

  /// Query i sees at most keys [start(i), limit(i)); start(i) <= limit(i).
  std::int64_t start(std::int64_t i) const {
    return std::clamp<std::int64_t>(i + shift - before, 0, keys);
  }
  std::int64_t limit(std::int64_t i) const {
    return std::clamp<std::int64_t>(i + shift + after + 1, 0, keys);
  }
  /// Key j is seen by rows [first_row(j), row_limit(j)) at most.
  std::int64_t first_row(std::int64_t j) const {
    return std::clamp<std::int64_t>(j - shift - after, 0, rows);
  }
  std::int64_t row_limit(std::int64_t j) const {
    return std::clamp<std::int64_t>(j - shift + before + 1, 0, rows);
  }
  /// No query sees a key farther away.
  std::int64_t farthest() const {
    return std::max<std::int64_t>(
        0, std::max(std::min(before, rows - 1 + shift), std::min(after, keys - 1 - shift)));
  }
  /// Keys in front of this one are seen by no row; the band leaves out none behind it.
  std::int64_t first_seen() const { return start(0); }
};

}  // namespace ssa
