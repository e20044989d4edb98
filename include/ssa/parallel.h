// The one way in which kernels run in parallel. The caller injects it: the operator passes
// at::parallel_for, programs without torch a small thread pool, tests a dummy.
#pragma once

#include <cstdint>
#include <functional>

namespace ssa {

/// `run(count, task)` calls task(i) once for each i in [0, count), in any order, possibly at the
/// same time on up to `threads` threads, and returns when all are done.
struct Parallel {
  int threads = 1;
  std::function<void(std::int64_t count, const std::function<void(std::int64_t)>& task)> run;
};

/// Everything on the calling thread, in order.
Parallel serial();

/// A pool of std::thread (not OpenMP: thread sanitizer reports libgomp falsely), made on first use
/// and kept. threads <= 0 means the number of hardware threads.
Parallel thread_pool(int threads = 0);

}  // namespace ssa
