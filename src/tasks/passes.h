// Endless passes over a set of things, each once a pass.
#pragma once

#include <cstdint>

#include "ssa/random.h"
#include "tasks/permutation.h"

namespace ssa {

struct PassPlace {
  std::int64_t pass;   ///< from 0
  std::int64_t which;  ///< of the things, from 0
};

/// Which of `count` things comes as number `index`: in their order, or shuffled anew by the seed in
/// each pass.
inline PassPlace in_passes(std::int64_t index, std::int64_t count, bool shuffled,
                           std::int64_t seed) {
  const std::int64_t pass = index / count, place = index % count;
  if (!shuffled) return {pass, place};
  const PhiloxWords counter = {0, 0, static_cast<std::uint32_t>(pass),
                               static_cast<std::uint32_t>(RandomStream::order)};
  return {pass, static_cast<std::int64_t>(
                    permuted(place, count, static_cast<std::uint64_t>(seed), counter))};
}

}  // namespace ssa
