// The in-context learning tasks as training sees them: curriculum, loss, metrics.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tasks/icl.h"
#include "tasks/task.h"

namespace ssa {

/// Points of a sequence at a step: points_start, and points_step more every points_interval steps,
/// up to points_end (Garg et al. 2022, arXiv 2208.01066).
std::int64_t curriculum_points(const TaskConfig& config, std::int64_t step);

/// Loss over all x positions: binary cross-entropy of sigmoid(output) against (y + 1)/2 for
/// quantifiers, mean squared error for linear functions. Metrics are the figures of eval/errors.h.
/// Validation has points_end points from the first step on, so that its course is comparable.
class InContextTask : public Task {
 public:
  explicit InContextTask(const Config& config);

  Batch training_batch(std::int64_t step, std::int64_t slice) const override;
  Batch validation_batch(std::int64_t index) const override;
  torch::Tensor loss(const torch::Tensor& output, const Batch& batch) const override;
  std::map<std::string, double> metrics(const torch::Tensor& output,
                                        const Batch& batch) const override;
  std::map<std::string, double> progress(std::int64_t step) const override;

 private:
  Batch batch(std::int64_t points, RandomStream stream, std::int64_t index,
              std::int64_t slice) const;

  TaskConfig config_;
  IclSpec spec_;
  std::uint64_t seed_;
};

}  // namespace ssa
