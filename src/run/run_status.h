// status.json of a run folder (docs/formats.md): how far training is, how it ended, and what was
// refused or failed since.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ssa {

struct RunStatus {
  enum class State {
    running,   ///< as far as the file says: a killed process leaves it so
    finished,  ///< all steps are done
    stopped,   ///< by a signal or --stop-at; --resume goes on
    failed,    ///< `reason` says why
    unknown,   ///< there is no such file
  };
  State state = State::unknown;
  std::int64_t step = 0;  ///< of the state
  std::string reason = {};
  std::string refused =
      {};  ///< why the last try to go on did not begin; "" if none was refused since
};

/// Throws std::runtime_error naming the file that cannot be written.
void write_status(const std::filesystem::path& run_folder, const RunStatus& status);

/// What the file says, but `failed` ("the process was killed") of a run that nobody holds although
/// it says that it is running. Throws std::runtime_error for a file that is something else.
RunStatus read_status(const std::filesystem::path& run_folder);

/// Notes in log.txt and status.json why a process could not go on with the run; its state stays. In
/// log.txt alone where another process has the run. Nothing where the folder holds no run.
void note_refusal(const std::filesystem::path& run_folder, const std::string& reason);

/// What evals/SUITE.failed of a run says.
struct FailedEvaluation {
  std::string suite, time, reason;
};

/// Notes in log.txt and evals/SUITE.failed why an evaluation has no result.
void note_failed_evaluation(const std::filesystem::path& run_folder, const std::string& suite,
                            const std::string& reason);

/// Of an evaluation that has one: removes what an earlier try left.
void forget_failed_evaluation(const std::filesystem::path& run_folder, const std::string& suite);

/// By the names of their suites.
std::vector<FailedEvaluation> failed_evaluations(const std::filesystem::path& run_folder);

/// "finished", "running", …
const char* state_name(RunStatus::State state);

}  // namespace ssa
