// A shuffle of any number of things of which single places can be asked for: nothing is stored, and
// nothing has to be replayed.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "ssa/philox.h"

namespace ssa {

/// Where `index` < count goes in shuffle number `round` of `key`: for each round and key a
/// bijection of [0, count), count <= 2^62. Feistel's network with Philox as its round function over
/// the smallest 2^(2k) >= count, run again until the result is below count (cycle walking: Black,
/// Rogaway 2002, Ciphers with Arbitrary Finite Domains). Four rounds are pseudo-random in theory
/// (Luby, Rackoff 1988), for wide halves: with k = 2 not even sixteen make the orders of 5 things
/// equally likely (chi² of 119 degrees of freedom: 1600), with k >= 4 four do.
inline std::uint64_t permuted(std::uint64_t index, std::uint64_t count, std::uint64_t key,
                              PhiloxWords counter) {
  constexpr std::uint32_t kFeistelRounds = 6;
  const int bits = std::max<int>(5, (std::bit_width(count - 1) + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  do {
    std::uint64_t left = index >> bits, right = index & mask;
    for (std::uint32_t round = 0; round < kFeistelRounds; ++round) {
      counter[0] = static_cast<std::uint32_t>(right);
      counter[1] = round;
      const std::uint64_t next = left ^ (philox4x32(key, counter)[0] & mask);
      left = right;
      right = next;
    }
    index = left << bits | right;
  } while (index >= count);
  return index;
}

}  // namespace ssa
