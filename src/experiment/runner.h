// Runs the cells of an experiment, each as child processes of the same program, so that the crash
// of one is one failed cell.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "experiment/results.h"

namespace ssa {

/// Where and how cells run.
struct CellRunner {
  std::filesystem::path program;  ///< the `ssa` binary
  std::filesystem::path folder;   ///< the experiment's
  std::int64_t jobs = 1;          ///< cells at once
};

/// What is left to do for a cell.
struct Work {
  Cell cell;
  std::vector<std::string> evaluations;  ///< those without a result
};

struct RunOutcome {
  std::vector<std::string> failed;  ///< one line per failed cell
  int interrupted = 0;              ///< the signal that stopped it, 0 if none did
};

/// A cell's config as a file for `ssa train`. The JSON of its values is valid TOML.
std::string to_toml(const Config& config);

/// Throws find_data's error for files that a cell or its evaluation would miss after hours.
void find_all_data(const std::vector<Work>& work);

/// The file of finished cells in an experiment's folder.
std::filesystem::path results_file(const std::filesystem::path& folder);

/// The cells with an evaluation that has no result yet, in order.
std::vector<Work> unfinished(const Experiment& experiment, const std::vector<CellResult>& results);

/// Throws std::runtime_error where a result, or a run folder begun earlier, was made with other
/// settings than the experiment has now.
void check_unchanged(const Experiment& experiment, const std::vector<CellResult>& results,
                     const std::filesystem::path& folder);

/// CPU threads of each of `jobs` cells at once: train.threads, or an even share of the cores.
std::int64_t threads_per_cell(const Config& config, std::int64_t jobs);

/// Cells at once that fill the cores, where the user does not say.
std::int64_t default_jobs(const Experiment& experiment);

/// Trains and evaluates; appends each finished cell to results.jsonl and prints a line for it.
RunOutcome run_cells(const Experiment& experiment, const std::vector<Work>& work,
                     const std::vector<CellResult>& finished, const CellRunner& runner);

}  // namespace ssa
