#include "train/score_landing.h"

#include "model/softmax_limit.h"

namespace ssa {

bool is_landing(const TrainConfig& config, std::int64_t step) {
  return step < config.score_landing_steps;
}

std::optional<std::vector<double>> landing_values(const Config& config, std::int64_t step) {
  const std::int64_t steps = config.train.score_landing_steps;
  if (steps == 0 || step > steps) return {};
  const std::vector<double> begin = config.model.initial_score_values();
  const std::vector<double>& end = config.train.score_landing;
  if (step == steps) return end;
  const double done = static_cast<double>(step) / static_cast<double>(steps);
  const auto between = [&](double first, double last) { return first + done * (last - first); };
  if (const auto limit = SoftmaxLimit::of(config.model.score)) {
    return limit->values(between(limit->coordinate(begin), limit->coordinate(end)),
                         between(limit->slope(begin), limit->slope(end)));
  }
  std::vector<double> values;
  for (std::size_t i = 0; i < begin.size(); ++i) values.push_back(between(begin[i], end[i]));
  return values;
}

}  // namespace ssa
