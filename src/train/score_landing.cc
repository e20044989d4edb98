#include "train/score_landing.h"

#include <torch/types.h>

#include "model/softmax_limit.h"

namespace ssa {
namespace {

/// The values of one head, `done` of the way.
std::vector<double> values_between(const Config& config, const std::vector<double>& begin,
                                   double done) {
  const std::vector<double>& end = config.train.score_landing;
  const auto between = [&](double first, double last) { return first + done * (last - first); };
  if (const auto limit = SoftmaxLimit::of(config.model.score)) {
    return limit->values(between(limit->coordinate(begin), limit->coordinate(end)),
                         between(limit->slope(begin), limit->slope(end)));
  }
  std::vector<double> values;
  for (std::size_t i = 0; i < begin.size(); ++i) values.push_back(between(begin[i], end[i]));
  return values;
}

}  // namespace

bool is_landing(const TrainConfig& config, std::int64_t step) {
  return step < config.score_landing_steps;
}

ScoreValues score_values(const Model& model) {
  ScoreValues values;
  for (const auto& layer : model.score_parameters()) {
    auto& of_layer = values.emplace_back();
    for (const auto& parameter : layer) of_layer.push_back(parameter.values.cpu().clone());
  }
  return values;
}

std::optional<std::vector<std::vector<std::vector<double>>>> landing_values(
    const Config& config, const ScoreValues& begin, std::int64_t step) {
  const std::int64_t steps = config.train.score_landing_steps;
  if (steps == 0 || step > steps) return {};
  const double done = static_cast<double>(step) / static_cast<double>(steps);
  std::vector<std::vector<std::vector<double>>> layers;
  for (const auto& of_layer : begin) {
    auto& layer = layers.emplace_back(of_layer.size());
    for (std::int64_t head = 0; !of_layer.empty() && head < of_layer.front().numel(); ++head) {
      std::vector<double> values;
      for (const torch::Tensor& parameter : of_layer) {
        values.push_back(parameter[head].item<double>());
      }
      if (step > 0) {
        values = step == steps ? config.train.score_landing : values_between(config, values, done);
      }
      for (std::size_t i = 0; i < values.size(); ++i) layer[i].push_back(values[i]);
    }
  }
  return layers;
}

}  // namespace ssa
