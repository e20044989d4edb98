#include "train/train.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>

#include "files/durable_files.h"
#include "files/mapped_file.h"
#include "model/device.h"
#include "model/model.h"
#include "run/failure.h"
#include "run/run_folder.h"
#include "run/run_log.h"
#include "run/run_status.h"
#include "tasks/task.h"
#include "train/memory_need.h"
#include "train/processes.h"
#include "train/resume_rules.h"
#include "train/trainer.h"

namespace ssa {
namespace {

/// The run that the folder holds, or a new one; this process has its lock.
Run begin_run(const Config& config, const TrainOptions& options, bool go_on, const Task& task,
              const Model& model, int processes) {
  for (const char* part : {"", "checkpoints", "evals"}) sweep_temporaries(options.folder / part);
  if (!go_on) {
    return create_run(options.folder, config,
                      {.name = run_name(options.folder),
                       .parameters = count_parameters(model),
                       .processes = processes,
                       .data = task.data(),
                       .warnings = task.warnings()});
  }
  Run run = open_run(options.folder);
  for (const char* part : {"checkpoints", "evals"}) {
    std::filesystem::create_directories(options.folder / part);
  }
  require_same_run(run, config);
  require_same_processes(run, processes);
  require_same_data(run, task.data());
  if (is_at_step_zero(run)) run.record["data"] = task.data();
  return run;
}

std::string failure_text() {
  const std::string what = describe_current_exception();
  return memory_ran_out() ? fmt::format("{}; {}", what, kLessMemory) : what;
}

/// Of an error that the run folder tells of.
struct NotedFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void note_failure(const std::filesystem::path& folder, std::int64_t step,
                  const std::string& reason) {
  try {
    append_to_log(folder, "failed: " + reason);
    write_status(folder, {.state = RunStatus::State::failed, .step = step, .reason = reason});
  } catch (const std::exception&) {  // the folder is gone, or the disk full: `reason` says it
  }
}

/// Trains, and says in the folder how that ended.
TrainOutcome run_noting_end(Trainer& trainer, Processes& processes,
                            const std::filesystem::path& folder) {
  using State = RunStatus::State;
  struct WhileTheTrainerLives {
    Processes& processes;
    ~WhileTheTrainerLives() {
      processes.before_lost({});
      before_shrunk({});
    }
  } const told{processes};
  const auto tell = [&trainer, folder](const std::string& reason) {
    note_failure(folder, trainer.step(), reason);
  };
  processes.before_lost(tell);
  before_shrunk(tell);
  try {
    write_status(folder, {.state = State::running, .step = trainer.step()});
    const TrainOutcome outcome = trainer.run();
    const std::string reason =
        outcome.signal == 0 ? "" : fmt::format("signal {}", strsignal(outcome.signal));
    write_status(folder, {.state = outcome.finished ? State::finished : State::stopped,
                          .step = outcome.step,
                          .reason = reason});
    return outcome;
  } catch (const std::exception&) {
    const std::string reason = failure_text();
    note_failure(folder, trainer.step(), reason);
    throw NotedFailure(reason);
  }
}

/// Several processes cannot have one numbered device.
torch::Device device_of(const Config& config, Processes& processes) {
  const std::string& name = config.train.device;
  if (processes.size() > 1 && name.starts_with("cuda:")) {
    throw std::runtime_error(
        fmt::format("train.device = \"{}\" is one device for {} processes: \"cuda\" gives each the "
                    "one of its LOCAL_RANK",
                    name, processes.size()));
  }
  const torch::Device device =
      find_device("train.device", name, name == "cuda" ? processes.local_rank() : 0);
  processes.use_device(device);
  return device;
}

/// `is_ours`: whether what meets this process is a matter of the run that the folder holds.
TrainOutcome train_in(Processes& processes, const Config& config, const TrainOptions& options,
                      bool& is_ours) {
  const torch::Device device = device_of(config, processes);
  Config shared = config;
  shared.train.accumulation *= processes.size();
  auto task = make_task(shared);  // before there is a folder: it may refuse the model
  if (device.is_cpu()) require_memory(config);
  auto model = make_model(config.model, static_cast<std::uint64_t>(config.train.seed));
  model->to(device);
  require_same_in_all(processes, config, options, task->data());
  if (!processes.is_first()) {
    return Trainer(config, options, processes, std::move(task), std::move(model)).run();
  }
  if (options.resume) open_run(options.folder);  // says what is wrong with what is no run
  const RunLock lock(options.folder);            // before anything of it is written
  const bool go_on = options.resume || (options.resume_or_start && holds_run(options.folder));
  Run run = begin_run(config, options, go_on, *task, *model, processes.size());
  is_ours = true;
  Trainer trainer(config, options, processes, std::move(task), std::move(model), &lock);
  if (go_on) {
    trainer.load_newest_checkpoint();
    update_run(run, config, processes.size());
  }
  return run_noting_end(trainer, processes, options.folder);
}

}  // namespace

TrainOutcome train(const Config& config, const TrainOptions& options) {
  if (config.train.threads > 0) at::set_num_threads(static_cast<int>(config.train.threads));
  bool is_ours = options.resume || options.resume_or_start;
  std::optional<Processes> processes;
  try {
    processes.emplace();
    return train_in(*processes, config, options, is_ours);
  } catch (const NotedFailure&) {
    throw;
  } catch (const std::exception&) {
    const std::string reason = failure_text();
    if (is_ours && (!processes || processes->is_first())) note_refusal(options.folder, reason);
    throw std::runtime_error(reason);
  }
}

}  // namespace ssa
