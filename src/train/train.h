// Training: config in, run folder out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "config/config.h"

namespace ssa {

struct TrainOptions {
  std::filesystem::path folder;  ///< the run folder
  /// Go on from the newest checkpoint of an existing run (from step 0 if it has none yet). The
  /// config may differ from the run's in steps, intervals, threads and device only.
  bool resume = false;
  /// The same where the folder holds a run; else start one. So that the same command begins and
  /// goes on: torchrun --max-restarts, jobs that are queued again.
  bool resume_or_start = false;
  std::int64_t stop_at = 0;  ///< stop after that step as if interrupted; 0 = never
  bool quiet = false;        ///< nothing on the terminal (log.txt is written all the same)
};

struct TrainOutcome {
  std::int64_t step = 0;  ///< steps done
  bool finished = false;  ///< all of config.train.steps are done
  int signal = 0;      ///< of kStopSignals, to any process, that stopped it (state saved); 0 = none
  double seconds = 0;  ///< training time, earlier parts of a resumed run included
};

/// Trains and returns when all steps are done, stop_at is reached, or a first of the signals of
/// train/signals.h came (a second one kills the process); the last state is saved in every case.
/// Throws std::runtime_error for a folder that cannot be used and when loss or gradient is not
/// finite, naming step, learning rate and parameter; the checkpoints written before stay.
///
/// A resumed run continues bit for bit where the thread count is the same, on the CPU. It may go on
/// on another device: checkpoints are the same.
///
/// In several processes (train/processes.h), which must be started alike, each takes
/// config.train.accumulation batches a step; the first one alone validates and touches the folder.
/// Steps are those of one process with as many times the accumulation, but for rounding.
TrainOutcome train(const Config& config, const TrainOptions& options);

}  // namespace ssa
