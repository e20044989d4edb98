#include "tasks/icl_task.h"

#include <torch/types.h>

#include <algorithm>

#include "model/device.h"
#include "ssa/check.h"
#include "tasks/icl_errors.h"

namespace ssa {

std::int64_t curriculum_points(const TaskConfig& config, std::int64_t step) {
  const std::int64_t additions = step / config.points_interval;
  // By division: a product of large settings would wrap round.
  const std::int64_t missing = config.points_end - config.points_start;
  return additions > missing / config.points_step
             ? config.points_end
             : config.points_start + additions * config.points_step;
}

InContextTask::InContextTask(const Config& config)
    : config_(config.task),
      spec_{.task = icl_task(config.task.name),
            .sampler = config.task.sampler,
            .sequences = config.train.batch},
      seed_(static_cast<std::uint64_t>(config.train.seed)) {
  SSA_CHECK(config.model.input == InputKind::scalar,
            "task.name = \"" << name_of(config.task.name)
                             << "\" gives sequences of numbers, but model.input = \""
                             << name_of(config.model.input) << "\" (model.preset = \""
                             << config.model.preset << "\")");
}

Batch InContextTask::batch(std::int64_t points, RandomStream stream, std::int64_t index,
                           std::int64_t slice) const {
  IclSpec spec = spec_;
  spec.points = points;
  const IclSequences sequences = make_icl_sequences(spec, seed_, stream, index, slice);
  return {icl_tokens(sequences.x, sequences.y), sequences.y};
}

Batch InContextTask::training_batch(std::int64_t step, std::int64_t slice) const {
  return batch(curriculum_points(config_, step), RandomStream::training, step, slice);
}

Batch InContextTask::validation_batch(std::int64_t index) const {
  return batch(config_.points_end, RandomStream::validation, index, 0);
}

torch::Tensor InContextTask::loss(const torch::Tensor& output, const Batch& batch) const {
  const torch::Tensor predictions = icl_predictions(output);
  // In the type of the output: the cross-entropy would else come out in that of the targets.
  const torch::Tensor y =
      on_device(batch.targets, predictions.device()).to(predictions.scalar_type());
  if (spec_.task == IclTask::linear) return torch::mse_loss(predictions, y);
  return torch::binary_cross_entropy_with_logits(predictions, (y + 1) / 2);
}

std::map<std::string, double> InContextTask::metrics(const torch::Tensor& output,
                                                     const Batch& batch) const {
  const torch::Tensor predictions = icl_predictions(output.detach()).cpu();
  std::map<std::string, double> out;
  for (const Figure& figure : spec_.task == IclTask::linear
                                  ? linear_figures(predictions, batch.targets)
                                  : quantifier_figures(predictions, batch.targets)) {
    out[figure.metric] = figure.mean;
  }
  return out;
}

std::map<std::string, double> InContextTask::progress(std::int64_t step) const {
  return {{"points", static_cast<double>(curriculum_points(config_, step))}};
}

}  // namespace ssa
