// The one way in which kernels run in parallel. The caller injects it: the operator passes
// at::parallel_for, programs without torch a small thread pool, tests a dummy.
#pragma once

#include <cstdint>
#include <functional>

namespace ssa {

/// Calls task(i) for i = 0, 1, … count − 1 on the calling thread.
void run_in_order(std::int64_t count, const std::function<void(std::int64_t)>& task);

/// `run(count, task)` calls task(i) once for each i in [0, count), in any order, possibly at the
/// same time on up to `threads` threads, and returns when all are done. By default in order, on the
/// calling thread.
struct Parallel {
  int threads = 1;
  std::function<void(std::int64_t count, const std::function<void(std::int64_t)>& task)> run =
      run_in_order;
};

/// Everything on the calling thread, in order.
Parallel serial();

/// A pool of std::thread (not OpenMP: thread sanitizer reports libgomp falsely), made on first use
/// and kept. threads <= 0 means the number of hardware threads.
Parallel thread_pool(int threads = 0);

}  // namespace ssa
