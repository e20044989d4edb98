// `ssa eval`: a trained model under distribution shifts.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/whole_number.h"
#include "eval/icl_shift.h"
#include "eval/model_json.h"
#include "train/files.h"
#include "train/run_folder.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSuite = "icl-shift";

struct EvalOptions {
  fs::path run;
  std::string suite = kSuite;
  std::optional<std::int64_t> checkpoint;
  std::string sampler;  ///< empty: the one it was trained with
  IclShiftOptions shifts;
  IclSweep own;  ///< lists given as flags, instead of the grid's
};

std::string value_text(const IclShift& shift) {
  std::string text;
  for (const double value : shift.value) {
    text += fmt::format("{}{:g}", text.empty() ? "" : " x ", value);
  }
  return text;
}

/// The metric that the terminal shows, with the endings of parts: wrong, wrong-at, …
bool shown(const std::string& metric) {
  return metric.starts_with("wrong") || metric.starts_with("relative-error");
}

/// One line per shown metric; the first result's line is preceded by the head of the table.
void print_result(const IclShiftResult& result, bool first) {
  if (first) {
    fmt::print("\n{:<13} {:>9} {:>6}  {:<22} {:>9} {:>9}", "shift", "value", "points", "metric",
               "model", "+-");
    for (std::size_t p = 1; p < result.predictors.size(); ++p) {
      fmt::print(" {:>13}", result.predictors[p].predictor);
    }
    fmt::print("\n");
  }
  const std::string place = fmt::format("{:<13} {:>9} {:>6}", result.shift.name,
                                        value_text(result.shift), result.shift.spec.points);
  if (!result.skipped.empty()) fmt::print("{}  skipped: {}\n", place, result.skipped);
  if (result.predictors.empty()) return;
  const std::vector<Figure>& model = result.predictors.front().figures;
  for (std::size_t f = 0; f < model.size(); ++f) {
    if (!shown(model[f].metric)) continue;
    fmt::print("{}  {:<22} {:>9.4g} {:>9.2g}", place, model[f].metric, model[f].mean,
               model[f].standard_error);
    for (std::size_t p = 1; p < result.predictors.size(); ++p) {
      fmt::print(" {:>13.4g}", result.predictors[p].figures[f].mean);
    }
    fmt::print("\n");
  }
  std::fflush(stdout);
}

/// Means over the heads of the last layer.
void print_attention(const std::vector<IclShiftResult>& results) {
  fmt::print(
      "\nAttention of the last layer, mean over heads ({} sequences at most)\n"
      "{:<13} {:>9} {:>13} {:>9} {:>9}\n",
      kAttentionSequences, "shift", "value", "mass on huge", "entropy", "p_max");
  for (const IclShiftResult& result : results) {
    if (result.attention.empty()) continue;
    double mass = 0, entropy = 0, p_max = 0, heads = 0;
    for (const HeadStatistics& head : result.attention) {
      if (head.layer != result.attention.back().layer) continue;
      mass += head.mass.value_or(0);
      entropy += head.entropy;
      p_max += head.p_max;
      heads += 1;
    }
    const bool planted = result.attention.back().mass.has_value();
    fmt::print("{:<13} {:>9} {:>13} {:>9.4f} {:>9.4f}\n", result.shift.name,
               value_text(result.shift), planted ? fmt::format("{:.4f}", mass / heads) : "",
               entropy / heads, p_max / heads);
  }
}

/// The grid's sweep with the lists that were given in their place.
IclSweep chosen_sweep(const EvalOptions& options, IclTask task) {
  IclSweep sweep = icl_sweep(options.shifts.grid, task);
  if (!options.own.lengths.empty()) sweep.lengths = options.own.lengths;
  if (!options.own.sigmas.empty()) sweep.sigmas = options.own.sigmas;
  if (!options.own.huge.empty()) sweep.huge = options.own.huge;
  if (options.own.coefficients.empty()) return sweep;
  if (task != IclTask::linear) {
    throw std::invalid_argument("--coefficients: only icl-linear has coefficients");
  }
  sweep.coefficients = options.own.coefficients;
  return sweep;
}

void evaluate(EvalOptions options) {
  if (options.suite != kSuite) {
    throw std::invalid_argument(
        fmt::format("--suite {}: no such suite; there is {}", options.suite, kSuite));
  }
  const Run run = open_run(options.run);
  const IclTask task = icl_task(run.config.task.name);
  const bool linear = task == IclTask::linear;
  const std::string sampler = options.sampler.empty() ? run.config.task.sampler : options.sampler;
  options.shifts.sampler = icl_sampler(sampler);
  options.shifts.sweep = chosen_sweep(options, task);
  icl_shifts(task, options.shifts);  // refuses bad options before the model is loaded
  const LoadedModel loaded = load_model(run, options.checkpoint);

  fmt::print("{}: {}, score {}, step {}; {} sequences of data seed {}{}\n", run.folder.string(),
             run.config.task.name, run.config.model.score, loaded.step, options.shifts.sequences,
             options.shifts.data_seed, linear ? "" : fmt::format(", {} sampler", sampler));
  bool first = true;
  const std::vector<IclShiftResult> results =
      evaluate_icl_shifts(*loaded.model, run.config.model.max_positions, task, options.shifts,
                          [&](const IclShiftResult& result) {
                            print_result(result, first);
                            first = false;
                          });
  print_attention(results);

  Json out = {{"schema", 1},
              {"suite", kSuite},
              {"task", run.config.task.name},
              {"score", run.config.model.score},
              {"step", loaded.step},
              {"score_parameters", score_parameters_json(*loaded.model)}};
  out.update(to_json(task, options.shifts, results));
  const fs::path file = options.run / "evals" / fmt::format("{}.json", kSuite);
  fs::create_directories(file.parent_path());
  write_json(file, out);
  fmt::print("\nAll figures: {}\n", file.string());
}

}  // namespace

void add_eval(CLI::App& app, int&) {
  constexpr std::int64_t kMostSequences = 1'000'000'000, kMostPoints = 1'000'000;
  const auto options = std::make_shared<EvalOptions>();
  IclShiftOptions& shifts = options->shifts;
  app.add_option("run", options->run, "run folder, as `ssa train --out` made it")->required();
  app.add_option("--suite", options->suite, "what is measured: icl-shift")->capture_default_str();
  app.add_option("--checkpoint", options->checkpoint, "step of the checkpoint (default: newest)")
      ->check(whole_number(1));
  app.add_option("--sequences", shifts.sequences, "sequences of every shift")
      ->check(whole_number(1, kMostSequences))
      ->capture_default_str();
  app.add_option("--data-seed", shifts.data_seed, "seed of the sequences")
      ->check(whole_number(0))
      ->capture_default_str();
  app.add_option("--grid", shifts.grid, "values of the shifts: reduced or full")
      ->capture_default_str();
  app.add_option("--sampler", options->sampler,
                 "inputs of the quantifiers: balanced or plain (default: as trained)");
  app.add_option("--huge-position", shifts.huge_position, "position of the huge value, from 1")
      ->check(whole_number(1, kMostPoints))
      ->capture_default_str();
  const auto list = [&](const char* name, auto& values, const char* help) {
    return app
        .add_option(name, values, std::string(help) + ", separated by commas, not the grid's")
        ->delimiter(',')
        ->allow_extra_args(false);
  };
  list("--length", options->own.lengths, "points of longer sequences")
      ->check(whole_number(1, kMostPoints));
  list("--sigma", options->own.sigmas, "standard deviations of the inputs");
  list("--coefficients", options->own.coefficients,
       "standard deviations of a and b (icl-linear), also of `grid` and `both`");
  list("--huge", options->own.huge, "planted values");
  app.footer(
      "Writes RUN/evals/icl-shift.json (docs/formats.md).\n"
      "Example: ssa eval runs/every --suite icl-shift --sequences 1000");
  app.callback([options] { evaluate(*options); });
}

}  // namespace ssa
