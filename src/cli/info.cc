// `ssa info`: what this program is and what it runs on, and how runs stand.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <vector>

#include "cli/command.h"
#include "config/version.h"
#include "files/terminal.h"
#include "run/run_folder.h"
#include "run/run_status.h"
#include "ssa/attention.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

void show_row(const char* name, const std::string& value) { print("{:<10} {}\n", name, value); }

void print_program() {
  show_row("ssa", fmt::format("{} (git {})", version(), git_id()));
  show_row("build", std::string(build_options()));
  show_row("torch", fmt::format("{}, its kernels: {}", TORCH_VERSION, at::get_cpu_capability()));
  show_row("kernels",
           fmt::format("{} (the environment's SSA_TARGET restricts the choice)", kernel_target()));
  show_row("threads", fmt::format("{}", at::get_num_threads()));
  show_row("BLAS", at::hasMKL() ? at::get_mkl_version() : "without MKL");
  show_row("oneDNN", at::get_mkldnn_version());
  show_row("OpenMP", at::get_openmp_version());
}

/// One line, and one of every evaluation that failed: "runs/x: failed at step 300 of 1000,
/// checkpoint 300: …"
void print_run(const fs::path& folder) {
  const Run run = open_run(folder);
  const RunStatus status = read_status(folder);
  const auto checkpoints = checkpoint_steps(folder);
  std::string line = fmt::format("{}: {}", folder.string(), state_name(status.state));
  if (status.state == RunStatus::State::running) {
    line += fmt::format(" since step {}", status.step);
  } else if (status.state != RunStatus::State::unknown) {
    line += fmt::format(" at step {}", status.step);
  }
  line += fmt::format(" of {}; newest checkpoint: {}", run.config.train.steps,
                      checkpoints.empty() ? "none" : fmt::format("step {}", checkpoints.back()));
  if (!status.reason.empty()) line += "; " + status.reason;
  if (!status.refused.empty()) line += "; the last try to go on was refused: " + status.refused;
  print("{}\n", line);
  for (const FailedEvaluation& one : failed_evaluations(folder)) {
    print("{}: evaluation {} failed at {}: {}\n", folder.string(), one.suite, one.time, one.reason);
  }
}

}  // namespace

void add_info(CLI::App& app, int&) {
  const auto runs = std::make_shared<std::vector<fs::path>>();
  app.add_option("RUN", *runs,
                 "run folders: whether they are running, finished, stopped or failed, and why; "
                 "evaluations that failed");
  app.footer("Example: ssa info && ssa info runs/every");
  app.callback([runs] {
    if (runs->empty()) print_program();
    for (const fs::path& folder : *runs) print_run(folder);
  });
}

}  // namespace ssa
