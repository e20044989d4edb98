// The one file compiled with -fopenmp: at::parallel_for is a header template that silently runs on
// one thread when the including file is compiled without it.
#include "op/parallel.h"

#include <ATen/Parallel.h>

#ifndef _OPENMP
#error "compile this file with -fopenmp: at::parallel_for would be serial"
#endif

namespace ssa {

Parallel at_parallel() {
  return {at::in_parallel_region() ? 1 : at::get_num_threads(),
          [](std::int64_t count, const std::function<void(std::int64_t)>& task) {
            at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
              for (std::int64_t i = begin; i < end; ++i) task(i);
            });
          }};
}

}  // namespace ssa
