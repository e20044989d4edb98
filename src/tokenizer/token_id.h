// The number of a token in a vocabulary.
#pragma once

#include <cstdint>

namespace ssa {

using TokenId = std::int32_t;

/// No vocabulary is larger than this, and tables are by id.
inline constexpr TokenId kMostTokens = 1 << 24;

}  // namespace ssa
