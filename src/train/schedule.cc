#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ssa {

double learning_rate_at(const TrainConfig& config, std::int64_t step) {
  if (step < config.warmup_steps) {
    return config.learning_rate * static_cast<double>(step + 1) /
           static_cast<double>(config.warmup_steps);
  }
  const std::int64_t last = config.steps - 1 - config.warmup_steps;
  const double done = last <= 0 ? 1.0
                                : std::min(1.0, static_cast<double>(step - config.warmup_steps) /
                                                    static_cast<double>(last));
  double share = 1.0;
  switch (config.schedule) {
    case ScheduleKind::constant:
      return config.learning_rate;
    case ScheduleKind::linear:
      share = 1.0 - done;
      break;
    case ScheduleKind::cosine:
      share = 0.5 * (1.0 + std::cos(std::numbers::pi * done));
      break;
  }
  const double floor = config.final_learning_rate;
  return config.learning_rate * (floor + (1.0 - floor) * share);
}

}  // namespace ssa
