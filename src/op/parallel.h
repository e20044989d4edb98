#pragma once

#include "ssa/parallel.h"

namespace ssa {

/// Torch's own threads: at::parallel_for on at::get_num_threads() threads, or the calling thread
/// alone inside a parallel region.
Parallel at_parallel();

}  // namespace ssa
