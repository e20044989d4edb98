// FNV-1a (Fowler, Noll, Vo), 64 bits: names for contents, and streams of numbers for names. Not for
// defence.
#pragma once

#include <cstdint>
#include <string_view>

namespace ssa {

inline constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325, kFnvPrime = 0x100000001b3;

/// The hash of a text, going on from `hash` where more than one makes it.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = kFnvBasis) {
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * kFnvPrime;
  return hash;
}

}  // namespace ssa
