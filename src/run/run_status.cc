#include "run/run_status.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "files/durable_files.h"
#include "files/json.h"
#include "run/run_folder.h"
#include "run/run_log.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

using State = RunStatus::State;

constexpr std::array kNames = {
    std::pair(State::running, "running"), std::pair(State::finished, "finished"),
    std::pair(State::stopped, "stopped"), std::pair(State::failed, "failed"),
    std::pair(State::unknown, "unknown")};

State state_named(const std::string& name, const std::string& file) {
  for (const auto& [state, known] : kNames) {
    if (name == known) return state;
  }
  throw std::runtime_error(fmt::format("{}: unknown state \"{}\"", file, name));
}

std::string time_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

fs::path status_file(const fs::path& run_folder) { return run_folder / "status.json"; }

constexpr const char* kFailed = ".failed";

fs::path failure_file(const fs::path& run_folder, const std::string& suite) {
  return run_folder / "evals" / (suite + kFailed);
}

/// What the file says, whoever may live.
RunStatus status_in(const fs::path& file) {
  if (!fs::exists(file)) return {};
  const std::string name = file.string();
  const Json values = read_json(file);
  return {state_named(json_field<std::string>(values, "state", name), name),
          json_field<std::int64_t>(values, "step", name),
          json_field<std::string>(values, "reason", name),
          values.contains("refused") ? json_field<std::string>(values, "refused", name) : ""};
}

/// Whether a process has the run's lock.
bool is_held(const fs::path& folder) {
  const FileDescriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return opened && ::flock(opened.number(), LOCK_SH | LOCK_NB) != 0;
}

}  // namespace

const char* state_name(State state) {
  for (const auto& [known, name] : kNames) {
    if (state == known) return name;
  }
  return "unknown";
}

void write_status(const fs::path& run_folder, const RunStatus& status) {
  Json values = {{"schema", 1},
                 {"state", state_name(status.state)},
                 {"step", status.step},
                 {"time", time_now()},
                 {"reason", status.reason}};
  if (!status.refused.empty()) values["refused"] = status.refused;
  write_json(status_file(run_folder), values);
}

RunStatus read_status(const fs::path& run_folder) {
  RunStatus status = status_in(status_file(run_folder));
  if (status.state == State::running && !is_held(run_folder)) {
    status.state = State::failed;
    status.reason = "its process was killed";
  }
  return status;
}

void note_refusal(const fs::path& run_folder, const std::string& reason) {
  if (!holds_run(run_folder)) return;
  try {
    append_to_log(run_folder, "refused: " + reason);
    const RunLock lock(run_folder);
    RunStatus status = status_in(status_file(run_folder));
    status.refused = reason;
    write_status(run_folder, status);
  } catch (const std::exception&) {  // nothing can be written there, or another process has it
  }
}

void note_failed_evaluation(const fs::path& run_folder, const std::string& suite,
                            const std::string& reason) {
  try {
    append_to_log(run_folder, fmt::format("evaluation {} failed: {}", suite, reason));
    write_json(failure_file(run_folder, suite),
               {{"schema", 1}, {"time", time_now()}, {"reason", reason}});
  } catch (const std::exception&) {  // nothing can be written there
  }
}

void forget_failed_evaluation(const fs::path& run_folder, const std::string& suite) {
  std::error_code ignored;
  fs::remove(failure_file(run_folder, suite), ignored);
}

std::vector<FailedEvaluation> failed_evaluations(const fs::path& run_folder) {
  std::vector<FailedEvaluation> found;
  const fs::path folder = run_folder / "evals";
  if (!fs::is_directory(folder)) return found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != kFailed || entry.path().filename().string().starts_with(".")) {
      continue;
    }
    const Json values = read_json(entry.path());
    const std::string name = entry.path().string();
    found.push_back({entry.path().stem().string(), json_field<std::string>(values, "time", name),
                     json_field<std::string>(values, "reason", name)});
  }
  std::ranges::sort(found, {}, &FailedEvaluation::suite);
  return found;
}

}  // namespace ssa
