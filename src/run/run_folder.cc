#include "run/run_folder.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <stdexcept>

#include "config/version.h"
#include "files/durable_files.h"
#include "run/checkpoint_files.h"
#include "ssa/attention.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kSchema = 1;
constexpr std::string_view kStepPrefix = "step-";

fs::path record_file(const fs::path& folder) { return folder / "run.json"; }

/// A temporary file that a crash left before run.json was there does not count.
bool is_empty_folder(const fs::path& folder) {
  return fs::is_directory(folder) &&
         std::ranges::all_of(fs::directory_iterator(folder), [](const auto& entry) {
           return entry.path().filename().string().starts_with(".");
         });
}

}  // namespace

bool holds_run(const fs::path& folder) { return fs::is_regular_file(record_file(folder)); }

Run create_run(const fs::path& folder, const std::string& name, const Config& config,
               std::int64_t parameters, int processes, const Json& data) {
  if (holds_run(folder)) {
    throw std::runtime_error(
        fmt::format("{}: already holds a run: continue it with --resume, or choose another folder",
                    folder.string()));
  }
  if (fs::exists(folder) && !is_empty_folder(folder)) {
    throw std::runtime_error(
        fmt::format("{}: is not a new or empty folder, and holds no run", folder.string()));
  }
  fs::create_directories(folder);
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  Run run{folder,
          name,
          config,
          {{"schema", kSchema},
           {"name", name},
           {"version", version()},
           {"git", git_id()},
           {"target", kernel_target()},
           {"torch", TORCH_VERSION},
           {"score", config.model.score},
           {"parameters", parameters},
           {"processes", processes},
           {"created", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now))},
           {"config", to_json(config)},
           {"data", data}}};
  write_json(record_file(folder), run.record);
  fs::create_directory(folder / "checkpoints");
  fs::create_directory(folder / "evals");
  return run;
}

void require_same_data(const Run& run, const Json& data) {
  const Json before = run.record.value("data", Json::object());
  for (const auto& [name, hash] : before.items()) {
    if (!data.contains(name) || data[name] == hash) continue;
    throw std::runtime_error(fmt::format(
        "{}: {} has other content now ({}) than when the run began ({})", run.folder.string(), name,
        data[name].get<std::string>(), hash.get<std::string>()));
  }
}

Run open_run(const fs::path& folder) {
  if (!fs::is_directory(folder)) {
    throw std::runtime_error(fmt::format("{}: no such folder", folder.string()));
  }
  if (!holds_run(folder)) {
    throw std::runtime_error(
        fmt::format("{}: holds no run (run.json is missing)", folder.string()));
  }
  const fs::path file = record_file(folder);
  Json record = read_json(file);
  const auto schema = record.is_object() ? record.find("schema") : record.end();
  if (schema == record.end() || *schema != kSchema) {
    throw std::runtime_error(fmt::format("{}: expected \"schema\": {}", file.string(), kSchema));
  }
  if (!record.contains("config") || !record.contains("name") || !record["name"].is_string()) {
    throw std::runtime_error(fmt::format("{}: lacks name or config", file.string()));
  }
  const auto name = record["name"].get<std::string>();
  return {folder, name, config_from_json(record["config"], file.string()), std::move(record)};
}

void update_run(Run& run, const Config& config, int processes) {
  run.config = config;
  run.record["config"] = to_json(config);
  run.record["processes"] = processes;
  const Json program = {{"git", git_id()}, {"target", kernel_target()}};
  const Json& first = run.record;
  const bool same = first.value("git", "") == program["git"] &&
                    first.value("target", std::string(kernel_target())) == program["target"];
  if (!same || run.record.contains("resumed_by")) run.record["resumed_by"].push_back(program);
  write_json(record_file(run.folder), run.record);
}

fs::path checkpoint_folder(const fs::path& run_folder, std::int64_t step) {
  return run_folder / "checkpoints" / fmt::format("{}{}", kStepPrefix, step);
}

std::vector<std::int64_t> checkpoint_steps(const fs::path& run_folder) {
  std::vector<std::int64_t> steps;
  const fs::path folder = run_folder / "checkpoints";
  if (!fs::is_directory(folder)) return steps;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() || !name.starts_with(kStepPrefix)) continue;
    std::int64_t step = 0;
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + kStepPrefix.size(), end, step);
    if (error == std::errc() && stop == end) steps.push_back(step);
  }
  std::ranges::sort(steps);
  return steps;
}

LoadedModel load_model(const Run& run, std::optional<std::int64_t> step) {
  if (!step) {
    const auto steps = checkpoint_steps(run.folder);
    if (steps.empty()) {
      throw std::runtime_error(fmt::format("{}: has no checkpoint yet", run.folder.string()));
    }
    step = steps.back();
  }
  auto model = make_model(run.config.model, static_cast<std::uint64_t>(run.config.train.seed));
  load_weights(checkpoint_folder(run.folder, *step), *model);
  model->eval();
  return {model, *step};
}

RunLock::RunLock(const fs::path& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw std::runtime_error(
        fmt::format("{}: another process is training in this folder", folder.string()));
  }
}

RunLock::~RunLock() { ::close(descriptor_); }

}  // namespace ssa
