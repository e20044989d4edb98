// status.json of a run folder (docs/formats.md): how far training is and how it ended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

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
  std::string reason;
};

/// Throws std::runtime_error naming the file that cannot be written.
void write_status(const std::filesystem::path& run_folder, const RunStatus& status);

/// What the file says, but `failed` ("the process was killed") of a run that nobody holds although
/// it says that it is running. Throws std::runtime_error for a file that is something else.
RunStatus read_status(const std::filesystem::path& run_folder);

/// "finished", "running", …
const char* state_name(RunStatus::State state);

}  // namespace ssa
