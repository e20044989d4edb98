#include "model/autocast.h"

#include <ATen/autocast_mode.h>

namespace ssa {
namespace {

bool has_autocast(torch::DeviceType type) { return type == torch::kCPU || type == torch::kCUDA; }

}  // namespace

Precision autocast_precision(torch::Device device) {
  return has_autocast(device.type()) && at::autocast::is_autocast_enabled(device.type())
             ? Precision::bfloat16
             : Precision::float32;
}

Autocast::Autocast(Precision precision, torch::Device device)
    : type_(device.type()), before_(autocast_precision(device) == Precision::bfloat16) {
  if (!has_autocast(type_)) return;
  at::autocast::set_autocast_enabled(type_, precision == Precision::bfloat16);
  at::autocast::set_autocast_dtype(type_, at::kBFloat16);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!has_autocast(type_)) return;
  // The cache holds weights in bfloat16; the next step's are others.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(type_, before_);
}

}  // namespace ssa
