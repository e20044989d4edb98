// The one file compiled with -fopenmp: at::parallel_for is a header template that silently runs on
// one thread when the including file is compiled without it.
#include "op/parallel.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>

#ifndef _OPENMP
#error "compile this file with -fopenmp: at::parallel_for would be serial"
#endif

namespace ssa {

Parallel at_parallel() {
  return {at::in_parallel_region() ? 1 : at::get_num_threads(),
          [](std::int64_t count, const std::function<void(std::int64_t)>& task) {
            // at::parallel_for cuts the range into one piece a thread; tasks cost unequally, so the
            // pieces are workers that take the next task each.
            const std::int64_t workers = std::min<std::int64_t>(count, at::get_num_threads());
            std::atomic<std::int64_t> next{0};
            at::parallel_for(0, workers, 1, [&](std::int64_t begin, std::int64_t end) {
              for (std::int64_t worker = begin; worker < end; ++worker) {
                for (std::int64_t i = next++; i < count; i = next++) task(i);
              }
            });
          }};
}

}  // namespace ssa
