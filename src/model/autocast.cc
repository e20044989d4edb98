#include "model/autocast.h"

#include <ATen/autocast_mode.h>

namespace ssa {

Autocast::Autocast(Precision precision) : before_(at::autocast::is_autocast_enabled(at::kCPU)) {
  at::autocast::set_autocast_enabled(at::kCPU, precision == Precision::bfloat16);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  // The cache holds weights in bfloat16; the next step's are others.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, before_);
}

}  // namespace ssa
