// Row-wise work of the small kernels, divided among threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/target.h"
#include "ssa/parallel.h"

namespace ssa {

/// Calls part(first row, rows), about four parts a thread.
template <class Part>
void in_row_parts(std::int64_t rows, const Parallel& parallel, Part&& part) {
  const std::int64_t parts = std::min<std::int64_t>(rows, 4 * parallel.threads);
  if (parts == 0) return;
  choose_target();
  parallel.run(parts, [&](std::int64_t p) {
    const std::int64_t first = rows * p / parts;
    part(first, rows * (p + 1) / parts - first);
  });
}

}  // namespace ssa
