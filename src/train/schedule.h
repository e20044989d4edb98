// The learning rate of a step.
#pragma once

#include <cstdint>

#include "config/config.h"

namespace ssa {

/// Learning rate of the update number `step` (from 0): rises linearly to learning_rate over
/// warmup_steps (the first update already takes 1/warmup_steps of it), then constant, or linear or
/// half a cosine down to final_learning_rate · learning_rate at the last step.
double learning_rate_at(const TrainConfig& config, std::int64_t step);

}  // namespace ssa
