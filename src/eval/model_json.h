// What a model holds and computes, as JSON.
#pragma once

#include <torch/types.h>

#include "model/model.h"

namespace ssa {

/// Nested arrays in the tensor's shape, with as few digits as tell apart float32 values (0.8, not
/// 0.800000011920929). What is not finite becomes null.
Json to_json(const torch::Tensor& values);

/// [{"n": […], "b": […]}, … one per layer]: effective values of the score's parameters, one per
/// head, or a single one where a layer's heads share it.
Json score_parameters_json(const Model& model);

}  // namespace ssa
