// Mixed precision on the CPU.
#pragma once

#include "config/choices.h"

namespace ssa {

/// While it lives, matrix products and attention run in bfloat16 if `precision` is bfloat16 (what
/// torch.autocast("cpu") does in Python), with nothing changed for float32.
class Autocast {
 public:
  explicit Autocast(Precision precision);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool before_;
};

}  // namespace ssa
