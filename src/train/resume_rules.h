// What must be the same for a run to go on, and for processes to train together.
#pragma once

#include "config/config.h"
#include "run/run_folder.h"
#include "train/processes.h"
#include "train/train.h"

namespace ssa {

/// Whether it has weights but no step behind it, as an imported run.
bool is_at_step_zero(const Run& run);

/// Throws std::runtime_error naming a field that a resumed run may not change. An imported run
/// becomes what is asked for with its first step, but for the model.
void require_same_run(const Run& run, const Config& config);

/// Throws std::runtime_error where another number of processes trained it: what a step trains on
/// depends on that.
void require_same_processes(const Run& run, int processes);

/// Throws std::runtime_error in all processes where they were started with different settings, data
/// or programs. Threads are each process's own.
void require_same_in_all(Processes& processes, Config config, const TrainOptions& options,
                         const Json& data);

}  // namespace ssa
