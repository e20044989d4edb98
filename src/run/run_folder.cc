#include "run/run_folder.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <torch/types.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "config/suggestion.h"
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

/// Temporary files that a crash left before run.json was there do not count.
bool is_empty_folder(const fs::path& folder) {
  return std::ranges::all_of(fs::directory_iterator(folder), [](const auto& entry) {
    return entry.path().filename().string().starts_with(".");
  });
}

/// Throws unless the record has what is read of it, in its types.
void check_record(const Json& record, const std::string& file) {
  const auto schema = record.is_object() ? record.find("schema") : record.end();
  if (schema == record.end() || *schema != kSchema) {
    throw std::runtime_error(fmt::format("{}: expected \"schema\": {}", file, kSchema));
  }
  json_field<std::string>(record, "name", file);
  if (!json_field<Json>(record, "config", file).is_object()) {
    throw std::runtime_error(fmt::format("{}: field \"config\": expected an object", file));
  }
  for (const char* number : {"parameters", "processes"}) {
    if (record.contains(number)) json_field<std::int64_t>(record, number, file);
  }
  if (!record.contains("data")) return;  // of early versions
  const Json& data = record.at("data");
  const auto is_text = [](const Json& value) { return value.is_string(); };
  if (!data.is_object() || !std::ranges::all_of(data, is_text)) {
    throw std::runtime_error(fmt::format("{}: field \"data\": expected an object of hashes", file));
  }
}

}  // namespace

bool holds_run(const fs::path& folder) { return fs::is_regular_file(record_file(folder)); }

std::string run_name(const fs::path& folder) {
  const fs::path whole = fs::absolute(folder).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

Run create_run(const fs::path& folder, const Config& config, const RunFacts& facts) {
  if (holds_run(folder)) {
    throw std::runtime_error(
        fmt::format("{}: already holds a run: continue it with --resume, or choose another folder",
                    folder.string()));
  }
  if (!is_empty_folder(folder)) {
    throw std::runtime_error(
        fmt::format("{}: is not a new or empty folder, and holds no run", folder.string()));
  }
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  Run run{folder,
          facts.name,
          config,
          {{"schema", kSchema},
           {"name", facts.name},
           {"version", version()},
           {"git", git_id()},
           {"target", kernel_target()},
           {"torch", TORCH_VERSION},
           {"score", config.model.score},
           {"parameters", facts.parameters},
           {"processes", facts.processes},
           {"created", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now))},
           {"config", to_json(config)},
           {"data", facts.data}}};
  if (!facts.warnings.empty()) run.record["warnings"] = facts.warnings;
  write_json(record_file(folder), run.record);  // first: without it the folder is refused
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
    throw std::runtime_error(
        fmt::format("{}: no such folder{}", folder.string(), did_you_mean(folder)));
  }
  if (!holds_run(folder)) {
    throw std::runtime_error(
        fmt::format("{}: holds no run (run.json is missing)", folder.string()));
  }
  const fs::path file = record_file(folder);
  Json record = read_json(file);
  check_record(record, file.string());
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

LoadedModel load_model(const Run& run, std::optional<std::int64_t> step, torch::Device device) {
  auto model = make_model(run.config.model, std::nullopt);
  const auto load = [&](std::int64_t chosen) -> LoadedModel {
    load_weights(checkpoint_folder(run.folder, chosen), *model);
    require_one_checkpoint(checkpoint_folder(run.folder, chosen));
    model->eval();
    model->to(device);
    return {model, chosen};
  };
  if (step) return load(*step);
  for (std::int64_t tried = -1;;) {
    const auto steps = checkpoint_steps(run.folder);
    if (steps.empty()) {
      throw std::runtime_error(fmt::format("{}: has no checkpoint yet", run.folder.string()));
    }
    try {
      return load(steps.back());
    } catch (const std::runtime_error&) {
      // A run that trains meanwhile may have removed it: then there is a newer one.
      if (steps.back() == tried || fs::exists(checkpoint_folder(run.folder, steps.back()))) throw;
      tried = steps.back();
    }
  }
}

RunLock::RunLock(const fs::path& folder) : folder_(folder) {
  std::error_code error;
  fs::create_directories(folder.has_filename() ? folder : folder.parent_path(), error);
  if (fs::exists(folder) && !fs::is_directory(folder)) {
    throw std::runtime_error(fmt::format("{}: is a file, not a folder", folder.string()));
  }
  if (error) {
    throw std::runtime_error(
        fmt::format("{}: cannot be made: {}", folder.string(), error.message()));
  }
  descriptor_ = FileDescriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor_) throw_system_error(folder, "opened");
  // read_status() may hold the lock for a moment to see whether somebody else does.
  int tries = 10;
  while (::flock(descriptor_.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK && --tries > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    if (errno != EWOULDBLOCK) throw_system_error(folder, "locked");
    throw std::runtime_error(
        fmt::format("{}: another process is working in this folder", folder.string()));
  }
  require_held();
}

void RunLock::require_held() const {
  struct stat mine {
  }, named{};
  const bool held = ::fstat(descriptor_.number(), &mine) == 0 &&
                    ::stat(folder_.c_str(), &named) == 0 && mine.st_ino == named.st_ino &&
                    mine.st_dev == named.st_dev;
  if (held) return;
  throw std::runtime_error(
      fmt::format("{}: was removed or replaced while this process worked in it", folder_.string()));
}

}  // namespace ssa
