#include "experiment/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "experiment/child_processes.h"
#include "files/durable_files.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

/// Seconds of training at that step of a run.
double seconds_at(const fs::path& metrics, std::int64_t step) {
  std::ifstream in(metrics);
  for (std::string line; std::getline(in, line);) {
    const Json values = Json::parse(line);
    if (values.value("step", std::int64_t{0}) == step && values.contains("seconds")) {
      return values.at("seconds").get<double>();
    }
  }
  throw std::runtime_error(fmt::format("{}: no line of step {}", metrics.string(), step));
}

/// Milliseconds a step.
double try_cell(const Cell& cell, const CellRunner& runner, const fs::path& folder) {
  Config config = cell.config;
  config.train.threads = threads_per_cell(cell.config, runner.jobs);
  config.train.log_interval = kCostSteps / 2;
  config.task.points_start = config.task.points_end;
  const fs::path file = folder / "cell.toml", log = folder / "log.txt", run = folder / "run";
  fs::remove_all(folder);
  fs::create_directories(folder);
  write_file(file, to_toml(config));
  ChildProcesses children;
  children.start({runner.program.string(), "train", file.string(), "--out", run.string(),
                  "--stop-at", fmt::format("{}", kCostSteps)},
                 log, config.train.threads);
  ChildProcesses::Event event = children.wait();
  while (event.pid == 0) event = children.wait();  // a signal, passed on
  const std::string failure = describe_failure(event.status);
  if (!failure.empty()) {
    throw std::runtime_error(
        fmt::format("{}: {}: {} (log: {})", cell.name(), failure, event.last_error, log.string()));
  }
  const fs::path metrics = run / "metrics.jsonl";
  return 1000 * (seconds_at(metrics, kCostSteps) - seconds_at(metrics, kCostSteps / 2)) /
         (static_cast<double>(kCostSteps) / 2);
}

}  // namespace

std::vector<CellCost> measure_cost(const std::vector<Work>& work, const CellRunner& runner) {
  const fs::path folder = runner.folder / "cost";
  std::vector<CellCost> costs;
  for (const Work& left : work) {
    const Cell& cell = left.cell;
    auto found = std::ranges::find_if(costs, [&](const CellCost& cost) {
      return cost.variant == cell.variant && cost.score == cell.score;
    });
    if (found == costs.end()) {
      found = costs.insert(costs.end(), {cell.variant, cell.score, 0, cell.config.train.steps,
                                         try_cell(cell, runner, folder)});
    }
    ++found->cells;
  }
  fs::remove_all(folder);
  return costs;
}

}  // namespace ssa
