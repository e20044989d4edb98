#include "train/resume_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

#include "config/counted.h"
#include "config/fnv1a.h"
#include "config/version.h"

namespace ssa {
namespace {

/// What a resumed run may change: nothing that a step depends on, but for the end of the schedule.
constexpr std::array<std::string_view, 9> kMayChange = {"steps",
                                                        "log_interval",
                                                        "eval_interval",
                                                        "eval_batches",
                                                        "checkpoint_interval",
                                                        "keep_checkpoints",
                                                        "threads",
                                                        "device",
                                                        "recompute"};

/// Fields that name files: another path to the same content is the same run (require_same_data).
constexpr std::array<std::string_view, 6> kPaths = {
    "tokenizer", "merges", "text", "validation_text", "tokens", "validation_tokens"};

/// Whether run.json knows what the files of that field held, so that their path does not matter.
bool is_known_by_content(const Run& run, std::string_view key) {
  const std::string_view hashed = key == "merges" ? "tokenizer" : key;  // one hash for both
  return std::ranges::find(kPaths, key) != kPaths.end() &&
         run.record.value("data", Json::object()).contains(fmt::format("task.{}", hashed));
}

}  // namespace

bool is_at_step_zero(const Run& run) {
  const auto steps = checkpoint_steps(run.folder);
  return !steps.empty() && steps.back() == 0;
}

void require_same_run(const Run& run, const Config& config) {
  const Json before = to_json(run.config);
  const Json wanted = to_json(config);
  for (const auto& [section, fields] : before.items()) {
    if (section != ModelConfig::kSection && is_at_step_zero(run)) continue;
    for (const auto& [key, value] : fields.items()) {
      const Json& asked = wanted[section][key];
      if (asked == value || std::ranges::find(kMayChange, key) != kMayChange.end()) continue;
      if (section == "task" && is_known_by_content(run, key)) continue;
      throw std::runtime_error(
          fmt::format("{}: {}.{} is {} in this run, but {} is asked for; a resumed run may change "
                      "only {}",
                      run.folder.string(), section, key, value.dump(), asked.dump(),
                      fmt::join(kMayChange, ", ")));
    }
  }
}

void require_same_processes(const Run& run, int processes) {
  const auto before = run.record.value("processes", 1);
  if (before == processes || checkpoint_steps(run.folder).empty() || is_at_step_zero(run)) return;
  throw std::runtime_error(fmt::format("{}: was trained by {}, not by {}: start as many as before",
                                       run.folder.string(), counted(before, "process"),
                                       counted(processes, "process")));
}

void require_same_in_all(Processes& processes, Config config, const TrainOptions& options,
                         const Json& data) {
  config.train.threads = 0;
  const std::string all =
      fmt::format("{} {} {} {} {} {} {}", to_json(config).dump(), data.dump(), options.stop_at,
                  options.resume, options.resume_or_start, version(), git_id());
  processes.require_same(fnv1a(all), "config, flags, data or program");
}

}  // namespace ssa
