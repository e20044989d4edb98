// The steps of a run: gradients, updates, validation, checkpoints, and what is said of them.
#pragma once

#include <torch/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "config/config.h"
#include "model/model.h"
#include "run/metrics.h"
#include "run/run_folder.h"
#include "run/run_log.h"
#include "tasks/task.h"
#include "train/checkpoint.h"
#include "train/optimizer.h"
#include "train/processes.h"
#include "train/score_landing.h"
#include "train/signals.h"
#include "train/train.h"

namespace ssa {

/// One process's part of a run; the first process alone validates and touches the folder.
class Trainer {
 public:
  /// `lock`: of the first process, whose folder it is.
  Trainer(const Config& config, const TrainOptions& options, Processes& processes,
          std::unique_ptr<Task> task, std::shared_ptr<Model> model, const RunLock* lock = nullptr)
      : config_(config),
        folder_(options.folder),
        lock_(lock),
        stop_at_(options.stop_at),
        processes_(processes),
        task_(std::move(task)),
        model_(std::move(model)),
        device_(model_->device()),
        optimizer_(config.train, *model_) {
    if (processes.is_first()) log_.emplace(options.folder, options.quiet);
  }

  void load_newest_checkpoint();
  /// Trains to the end or to where it is stopped, from what is loaded.
  TrainOutcome run();
  /// Of the last step that is done; for other threads too.
  std::int64_t step() const { return step_done_; }

 private:
  using Clock = std::chrono::steady_clock;

  void say(const std::string& line);
  void say_what_runs();
  ScoreValues landing_begin() const;
  void share_state();
  bool asked_to_stop();
  torch::Tensor loss_of(const Batch& batch);
  double accumulate_gradients();
  void take_step();
  std::string first_not_finite();
  std::string first_weight_not_finite() const;
  [[noreturn]] void fail(const std::string& what) const;
  void report_step(double loss, double norm, double learning_rate);
  void validate();
  void save();
  double seconds() const;

  const Config& config_;
  std::filesystem::path folder_;
  const RunLock* lock_;
  std::int64_t stop_at_;
  Processes& processes_;
  std::unique_ptr<Task> task_;
  std::shared_ptr<Model> model_;
  torch::Device device_;  // the model's
  Optimizer optimizer_;
  std::optional<RunLog> log_;           // of the first process, which alone
  std::optional<MetricsFile> metrics_;  // writes the run folder
  TrainerState state_;
  std::atomic<std::int64_t> step_done_ = 0;  // state_.step
  std::int64_t saved_step_ = -1;
  bool said_what_runs_ = false;
  StopSignals signals_;
  int signal_ = 0;                   // that any process has received
  bool validation_missing_ = false;  // of the last step: a signal ended it
  Clock::time_point started_;
  std::int64_t tokens_ = 0;       // since the last line of metrics
  double seconds_at_line_ = 0.0;  // training time then
};

}  // namespace ssa
