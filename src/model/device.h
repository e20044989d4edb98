// Where models compute.
#pragma once

#include <torch/types.h>

#include <string>

namespace ssa {

/// The device of that name (is_device_name), which the flag or field `what` asks for; "cuda"
/// without a number is number `number`. Loads torch's CUDA libraries where they are asked for.
/// Throws std::runtime_error saying what there is where that device is not.
torch::Device find_device(const std::string& what, const std::string& name, int number = 0);

/// The tensor there. What leaves the CPU is not waited for.
torch::Tensor on_device(const torch::Tensor& tensor, torch::Device device);

}  // namespace ssa
