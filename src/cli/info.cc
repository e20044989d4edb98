// `ssa info`: what this program is and what it runs on.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "config/version.h"
#include "ssa/attention.h"

namespace ssa {
namespace {

void print_info() {
  const auto row = [](const char* name, const std::string& value) {
    fmt::print("{:<10} {}\n", name, value);
  };
  row("ssa", fmt::format("{} (git {})", version(), git_id()));
  row("build", std::string(build_options()));
  row("torch", fmt::format("{}, its kernels: {}", TORCH_VERSION, at::get_cpu_capability()));
  row("kernels",
      fmt::format("{} (the environment's SSA_TARGET restricts the choice)", kernel_target()));
  row("threads", fmt::format("{}", at::get_num_threads()));
  row("BLAS", at::hasMKL() ? at::get_mkl_version() : "without MKL");
  row("oneDNN", at::get_mkldnn_version());
  row("OpenMP", at::get_openmp_version());
}

}  // namespace

void add_info(CLI::App& app, int&) {
  app.footer("Example: ssa info");
  app.callback(print_info);
}

}  // namespace ssa
