// Mixed precision.
#pragma once

#include <torch/types.h>

#include "config/choices.h"

namespace ssa {

/// While it lives, matrix products and attention on that kind of device run in bfloat16 if
/// `precision` is bfloat16 (what torch.autocast does in Python), with nothing changed for float32.
/// Devices without autocast (meta) have none.
class Autocast {
 public:
  Autocast(Precision precision, torch::Device device);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  torch::DeviceType type_;
  bool before_;
};

/// The precision of matrix products on that kind of device, as the Autocast that lives says it.
Precision autocast_precision(torch::Device device);

}  // namespace ssa
