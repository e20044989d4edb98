// The upper half of a float: 8 bits of significand.
#pragma once

#include <cstdint>
#include <cstring>

namespace ssa {

struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  /// Rounds to nearest, ties to even; NaN stays NaN.
  explicit BFloat16(float value) {
    std::uint32_t word;
    std::memcpy(&word, &value, sizeof(word));
    const bool nan = value != value;
    bits = static_cast<std::uint16_t>(
        (nan ? word | 0x400000u : word + 0x7fffu + (word >> 16 & 1)) >> 16);
  }
  explicit operator float() const {
    const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &word, sizeof(value));
    return value;
  }
};

}  // namespace ssa
