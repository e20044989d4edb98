// What a batch is and what its loss is. A task is a pure function of (seed, step): the same for
// every model and score, and resuming needs no replay.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/model.h"

namespace ssa {

/// On the CPU, whatever the model's device is: models and losses copy to theirs.
struct Batch {
  ModelInput inputs;      ///< what the model reads
  torch::Tensor targets;  ///< what the loss compares with; ICL: y, float (batch, points); language
                          ///< models: the ids at the wanted tokens, or next to them
};

class Task {
 public:
  virtual ~Task() = default;

  /// The training batch of an optimizer step (counted from 0) and accumulation slice.
  virtual Batch training_batch(std::int64_t step, std::int64_t slice) const = 0;
  /// Held-out batch number `index`, drawn from streams that training never touches.
  virtual Batch validation_batch(std::int64_t index) const = 0;
  /// What loss and metrics are made of: predictions, logits or losses, as the task needs them.
  virtual torch::Tensor output(Model& model, const Batch& batch) const {
    return model.forward(batch.inputs);
  }
  /// Scalar loss of that output.
  virtual torch::Tensor loss(const torch::Tensor& output, const Batch& batch) const = 0;
  /// Further figures of interest (no gradient), e.g. {"wrong": 0.01}.
  virtual std::map<std::string, double> metrics(const torch::Tensor& output,
                                                const Batch& batch) const = 0;
  /// Curriculum values of that step that belong in metrics.jsonl, e.g. {"points": 11}.
  virtual std::map<std::string, double> progress(std::int64_t step) const = 0;
  /// What the files hold that the task reads, for run.json: {"task.text": hash_files(…)}; tasks
  /// that draw their data have none.
  virtual Json data() const { return Json::object(); }
  /// What is wrong with the data though it can be trained on; stands in log.txt and run.json.
  virtual std::vector<std::string> warnings() const { return {}; }
  /// What the log says of the data before the first step, a line each.
  virtual std::vector<std::string> notes() const { return {}; }
};

/// The task named by config.task.name, for batches of config.train.batch and config.train.seed.
std::unique_ptr<Task> make_task(const Config& config);

}  // namespace ssa
