// Philox 4x32-10, a counter-based random number generator: the same counter and key give the same
// numbers anywhere, in any order, so nothing has to be stored or replayed.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ssa {

using PhiloxWords = std::array<std::uint32_t, 4>;

inline constexpr std::uint32_t kPhiloxMultipliers[2] = {0xD2511F53, 0xCD9E8D57};
inline constexpr std::uint32_t kPhiloxWeyl[2] = {0x9E3779B9, 0xBB67AE85};
inline constexpr int kPhiloxRounds = 10;

/// Four independent uniform 32-bit words for this counter. Word 0 of the key is the low half of
/// `key`.
constexpr PhiloxWords philox4x32(std::uint64_t key, PhiloxWords counter) {
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kPhiloxMultipliers[0]} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kPhiloxMultipliers[1]} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0,
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1,
               static_cast<std::uint32_t>(product0)};
    key0 += kPhiloxWeyl[0];
    key1 += kPhiloxWeyl[1];
  }
  return counter;
}

/// A word as a number in (0, 1): the middle of one of 2^32 equal cells, so 0 and 1 never occur.
constexpr double philox_unit(std::uint32_t word) { return (word + 0.5) * 0x1p-32; }

// ---- Dropout of attention weights (layout: docs/operator.md) ----
// The weight at (batch, head, row, column) is dropped when its word is below dropout_threshold(p).
// Columns come in groups of 64: one Philox call with counter (batch, head, row, 16·group + lane)
// serves the four columns lane, lane + 16, lane + 32, lane + 48 of the group. So no word is thrown
// away, and a vector of up to 16 lanes writes its results to consecutive columns without shuffling.

inline constexpr std::size_t kDropoutGroup = 64;

/// The words of columns 64·group … 64·group + 63 of one row of attention weights.
constexpr std::array<std::uint32_t, kDropoutGroup> dropout_words(std::uint64_t seed,
                                                                 std::uint32_t batch,
                                                                 std::uint32_t head,
                                                                 std::uint32_t row,
                                                                 std::uint32_t group) {
  std::array<std::uint32_t, kDropoutGroup> words{};
  for (std::uint32_t lane = 0; lane < 16; ++lane) {
    const PhiloxWords four = philox4x32(seed, {batch, head, row, 16 * group + lane});
    for (std::uint32_t i = 0; i < 4; ++i) words[16 * i + lane] = four[i];
  }
  return words;
}

/// Words below this are dropped: probability floor(p·2^32)/2^32, for 0 <= p < 1.
constexpr std::uint32_t dropout_threshold(double p) {
  return static_cast<std::uint32_t>(p * 0x1p32);
}

}  // namespace ssa
