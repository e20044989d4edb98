// The units of work that the dispatchers hand to the per-target kernels.
#pragma once

#include <cstdint>

namespace ssa {

/// Forward: queries [first, last) of one query head.
struct ForwardTask {
  std::int64_t batch, head, first, last;
};

}  // namespace ssa
