// What training takes of memory at the least, known before it begins.
#pragma once

#include "config/config.h"

namespace ssa {

/// Bytes of weights, gradients and moments, and of what the backward pass of one batch keeps: a
/// lower bound, from sizes in the config alone.
double least_training_memory(const Config& config);

/// Throws std::runtime_error naming what takes it and what lowers it where that much is not there.
void require_memory(const Config& config);

/// Options that lower it, for messages.
inline constexpr const char* kLessMemory =
    "less takes: a smaller train.batch (a larger train.accumulation makes up for it), "
    "train.recompute = true, shorter sequences, a smaller model";

}  // namespace ssa
