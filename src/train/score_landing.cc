#include "train/score_landing.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>
#include <stdexcept>

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

void require_landing_start(const Config& config, const Model& model) {
  if (config.train.score_landing_steps == 0) return;
  const std::vector<double> begin = config.model.initial_score_values();
  const auto layers = model.score_parameters();
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    for (std::size_t i = 0; i < begin.size(); ++i) {
      const torch::Tensor values = layers[layer][i].values.to(torch::kFloat64);
      const torch::Tensor far = (values - begin[i]).abs() > 1e-3 * std::abs(begin[i]) + 1e-9;
      if (!far.any().item<bool>()) continue;
      throw std::runtime_error(fmt::format(
          "train.score_landing begins at model.score_initial, {} = {:.6g}, but the weights have "
          "{:.6g} in layer {}: a landing needs a model that was imported with --score {} --match",
          layers[layer][i].name, begin[i], values.masked_select(far)[0].item<double>(), layer,
          config.model.score));
    }
  }
}

}  // namespace ssa
