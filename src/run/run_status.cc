#include "run/run_status.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <array>
#include <chrono>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "files/durable_files.h"
#include "files/json.h"

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
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  write_json(run_folder / "status.json",
             {{"schema", 1},
              {"state", state_name(status.state)},
              {"step", status.step},
              {"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now))},
              {"reason", status.reason}});
}

RunStatus read_status(const fs::path& run_folder) {
  const fs::path file = run_folder / "status.json";
  if (!fs::exists(file)) return {};
  const std::string name = file.string();
  const Json values = read_json(file);
  RunStatus status{state_named(json_field<std::string>(values, "state", name), name),
                   json_field<std::int64_t>(values, "step", name),
                   json_field<std::string>(values, "reason", name)};
  if (status.state == State::running && !is_held(run_folder)) {
    status.state = State::failed;
    status.reason = "its process was killed";
  }
  return status;
}

}  // namespace ssa
