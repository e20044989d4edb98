#include "experiment/runner.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <stdexcept>
#include <thread>

#include "eval/suites.h"
#include "experiment/child_processes.h"
#include "files/data_file.h"
#include "files/durable_files.h"
#include "files/lines.h"
#include "files/terminal.h"
#include "run/run_folder.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::string format_duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 90 * 60) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

/// The last line that says something.
std::string last_line(const fs::path& file) {
  std::string last;
  for_each_line(file, [&](std::string_view line) {
    if (!line.empty()) last = line;
  });
  return last;
}

/// A cell under way: its commands, of which the first not yet ended is running.
struct ActiveCell {
  const Work* work = nullptr;
  std::vector<std::vector<std::string>> commands;  ///< training, then each evaluation
  std::size_t command = 0;
  fs::path log;
  std::int64_t threads = 1;
  Clock::time_point begun;
  Clock::time_point command_begun;
  double training_seconds = 0;
};

class ExperimentRun {
 public:
  ExperimentRun(const Experiment& experiment, const std::vector<Work>& work,
                const std::vector<CellResult>& finished, const CellRunner& runner)
      : experiment_(experiment), work_(work), runner_(runner) {
    for (const CellResult& result : finished) {
      note_duration(result.variant, result.seconds);
      require_same_data(result);
    }
  }

  RunOutcome run() {
    while (true) {
      while (outcome_.interrupted == 0 && next_ < work_.size() &&
             active_.size() < static_cast<std::size_t>(runner_.jobs)) {
        begin(work_[next_++]);
      }
      if (active_.empty()) return outcome_;
      const ChildProcesses::Event event = children_.wait();
      if (event.signal != 0) {
        interrupt(event.signal);
      } else {
        command_ended(event);
      }
    }
  }

 private:
  void begin(const Work& work) {
    ActiveCell active;
    active.work = &work;
    active.begun = Clock::now();
    const Cell& cell = work.cell;
    const fs::path files = runner_.folder / "cells" / cell.variant / cell.score;
    const fs::path config_file = files / fmt::format("seed-{}.toml", cell.seed);
    active.log = files / fmt::format("seed-{}.log", cell.seed);
    active.threads = threads_per_cell(cell.config, runner_.jobs);
    Config config = cell.config;
    config.train.threads = active.threads;
    fs::create_directories(files);
    write_file(config_file, to_toml(config));

    const std::string program = runner_.program.string();
    const std::string run = (runner_.folder / cell.run()).string();
    active.commands.push_back({program, "train", config_file.string(), "--out", run});
    if (holds_run(run)) active.commands.back().push_back("--resume");
    for (const std::string& evaluation : work.evaluations) {
      std::vector<std::string> command = {program, "eval", run, "--suite", evaluation};
      std::ranges::copy(
          option_flags(evaluation_options(experiment_, cell), find_suite(evaluation)->kind),
          std::back_inserter(command));
      active.commands.push_back(std::move(command));
    }
    start(std::move(active));
  }

  void start(ActiveCell active) {
    active.command_begun = Clock::now();
    const pid_t pid = children_.start(active.commands[active.command], active.log, active.threads);
    active_.emplace(pid, std::move(active));
  }

  void interrupt(int signal) {
    if (outcome_.interrupted == 0) {
      print("interrupted: {} running cells save their state and stop\n", active_.size());
      std::fflush(stdout);
    }
    outcome_.interrupted = signal;
  }

  void command_ended(const ChildProcesses::Event& event) {
    ActiveCell active = std::move(active_.extract(event.pid).mapped());
    const std::string failure = describe_failure(event.status);
    if (!failure.empty()) {
      const std::string& reason = event.last_error;
      if (outcome_.interrupted == 0) {
        fail(active, failure + ": " + (reason.empty() ? last_line(active.log) : reason));
      }
      return;
    }
    const double seconds = seconds_since(active.command_begun);
    if (active.command == 0) {
      active.training_seconds = seconds;
    } else {
      try {
        record(active, seconds);
      } catch (const std::exception& error) {
        fail(active, error.what());
        return;
      }
    }
    if (++active.command == active.commands.size()) {
      finish(active);
    } else if (outcome_.interrupted == 0) {
      start(std::move(active));
    }
  }

  /// Cells that were measured on different files are no comparison.
  void require_same_data(const CellResult& result) {
    if (result.data.empty()) return;
    const auto [known, first] = data_.try_emplace(result.evaluation, result);
    if (first || known->second.data == result.data) return;
    const CellResult& other = known->second;
    throw std::runtime_error(fmt::format(
        "{}: {} seed {} of {} was evaluated on other files ({}) than {} seed {} of {} ({}): delete "
        "the lines of {} to evaluate all of them again",
        results_file(runner_.folder).string(), result.score, result.seed, result.variant,
        result.data, other.score, other.seed, other.variant, other.data, result.evaluation));
  }

  void record(const ActiveCell& active, double evaluation_seconds) {
    const Work& work = *active.work;
    CellResult result =
        collect_result(work.cell, runner_.folder, work.evaluations[active.command - 1],
                       evaluation_options(experiment_, work.cell));
    result.seconds = active.training_seconds + evaluation_seconds;
    require_same_data(result);
    append_result(results_file(runner_.folder), result);
  }

  void finish(const ActiveCell& active) {
    const double seconds = seconds_since(active.begun);
    note_duration(active.work->cell.variant, seconds);
    ++ended_;
    print("[{}/{}] {}: {}{}\n", ended_, work_.size(), active.work->cell.name(),
          format_duration(seconds), remaining());
    std::fflush(stdout);
  }

  void fail(const ActiveCell& active, const std::string& reason) {
    ++ended_;
    outcome_.failed.push_back(
        fmt::format("{}: {} (log: {})", active.work->cell.name(), reason, active.log.string()));
    print("[{}/{}] FAILED {}\n", ended_, work_.size(), outcome_.failed.back());
    std::fflush(stdout);
  }

  /// ", about 5 min left": what is not begun and half of what is under way, by variant.
  std::string remaining() const {
    double seconds = 0;
    for (std::size_t i = next_; i < work_.size(); ++i) seconds += expected(work_[i].cell.variant);
    for (const auto& [pid, active] : active_) {
      seconds += std::max(0.0, expected(active.work->cell.variant) - seconds_since(active.begun));
    }
    if (ended_ == work_.size()) return "";
    return fmt::format(", about {} left",
                       format_duration(seconds / static_cast<double>(runner_.jobs)));
  }

  void note_duration(const std::string& variant, double seconds) {
    for (const std::string& key : {variant, std::string()}) {
      durations_[key].first += seconds;
      durations_[key].second += 1;
    }
  }

  /// Mean duration of that variant's cells so far, or of all cells.
  double expected(const std::string& variant) const {
    const auto own = durations_.find(variant);
    const auto& [sum, count] = own != durations_.end() ? own->second : durations_.at("");
    return sum / count;
  }

  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  const Experiment& experiment_;
  const std::vector<Work>& work_;
  const CellRunner& runner_;
  ChildProcesses children_;
  std::map<pid_t, ActiveCell> active_;
  std::size_t next_ = 0;
  std::size_t ended_ = 0;
  std::map<std::string, std::pair<double, double>> durations_;  ///< sum and count; "" = all
  std::map<std::string, CellResult> data_;  ///< the first of each evaluation that tells its data
  RunOutcome outcome_;
};

/// A stored config with its missing fields: those that a later version added stand at their
/// default, which is what was run then.
Json complete(const Json& stored, const std::string& origin) {
  return to_json(config_from_json(stored, origin));
}

std::int64_t cores() { return std::max<std::int64_t>(1, std::thread::hardware_concurrency()); }

}  // namespace

std::string to_toml(const Config& config) {
  std::string out;
  const Json sections = to_json(config);
  for (const auto& [section, fields] : sections.items()) {
    out += fmt::format("[{}]\n", section);
    for (const auto& [key, value] : fields.items())
      out += fmt::format("{} = {}\n", key, value.dump());
  }
  return out;
}

void find_all_data(const std::vector<Work>& work) {
  for (const Work& left : work) {
    for (const std::string& evaluation : left.evaluations) {
      const SuiteInfo& suite = *find_suite(evaluation);
      if (suite.data != nullptr) find_data(suite.data, "experiment.evaluations: " + evaluation);
    }
    const TaskConfig& task = left.cell.config.task;
    if (!task.tokenizer.empty()) find_data(task.tokenizer, "task.tokenizer");
    if (!task.merges.empty()) find_data(task.merges, "task.merges");
    for (const std::string& prefix : task.tokens) find_data(prefix + ".idx", "task.tokens");
    for (const std::string& prefix : task.validation_tokens) {
      find_data(prefix + ".idx", "task.validation_tokens");
    }
    for (const std::string& file : task.text) find_data(file, "task.text");
    for (const std::string& file : task.validation_text) find_data(file, "task.validation_text");
  }
}

fs::path results_file(const fs::path& folder) { return folder / "results.jsonl"; }

std::vector<Work> unfinished(const Experiment& experiment, const std::vector<CellResult>& results) {
  std::vector<Work> work;
  for (const Cell& cell : experiment.cells) {
    Work left{cell, {}};
    for (const std::string& evaluation : experiment.settings.evaluations) {
      const bool done = std::ranges::any_of(results, [&](const CellResult& result) {
        return result.variant == cell.variant && result.score == cell.score &&
               result.seed == cell.seed && result.evaluation == evaluation;
      });
      if (!done) left.evaluations.push_back(evaluation);
    }
    if (!left.evaluations.empty()) work.push_back(std::move(left));
  }
  return work;
}

void check_unchanged(const Experiment& experiment, const std::vector<CellResult>& results,
                     const fs::path& folder) {
  const auto refuse = [&](const std::string& where, const Cell& cell, const std::string& change) {
    throw std::runtime_error(
        fmt::format("{}: {} was run with {} in {}: use another --out, or delete {}", where,
                    cell.name(), change, experiment.file.string(), folder.string()));
  };
  const std::string file = results_file(folder).string();
  for (const CellResult& result : results) {
    const Cell* cell = find_cell(experiment, result.variant, result.score, result.seed);
    if (cell == nullptr) continue;
    const std::string change =
        first_difference(complete(result.config, file), to_json(cell->config));
    if (!change.empty()) refuse(file, *cell, change);
    Json wanted = evaluation_options(experiment, *cell);
    if (shares_test_sequences(result)) wanted.erase("data_seed");
    const std::string option = first_difference(checked_options(result.options, file), wanted);
    if (!option.empty()) {
      throw std::runtime_error(fmt::format(
          "{}: {} was evaluated with evaluation.{} in {}: use another --out, or delete {} to "
          "evaluate the trained runs again",
          file, cell->name(), option, experiment.file.string(), file));
    }
  }
  for (const Cell& cell : experiment.cells) {
    const fs::path run_file = folder / cell.run() / "run.json";
    if (!fs::exists(run_file)) continue;
    const Json begun = read_json(run_file).value("config", Json::object());
    const std::string change =
        first_difference(complete(begun, run_file.string()), to_json(cell.config));
    if (!change.empty()) refuse(run_file.string(), cell, change);
  }
}

std::int64_t threads_per_cell(const Config& config, std::int64_t jobs) {
  return config.train.threads > 0 ? config.train.threads
                                  : std::max<std::int64_t>(1, cores() / jobs);
}

std::int64_t default_jobs(const Experiment& experiment) {
  std::int64_t threads = 1;
  for (const Cell& cell : experiment.cells) threads = std::max(threads, cell.config.train.threads);
  return std::max<std::int64_t>(1, cores() / threads);
}

RunOutcome run_cells(const Experiment& experiment, const std::vector<Work>& work,
                     const std::vector<CellResult>& finished, const CellRunner& runner) {
  find_all_data(work);
  return ExperimentRun(experiment, work, finished, runner).run();
}

}  // namespace ssa
