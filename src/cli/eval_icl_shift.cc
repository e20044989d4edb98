// `ssa eval --suite icl-shift`: a trained in-context model under distribution shifts.
#include "eval/icl_shift.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "cli/eval_suite.h"
#include "cli/number.h"
#include "files/terminal.h"

namespace ssa {
namespace {

struct ShiftArguments {
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
    print("\n{:<13} {:>9} {:>6}  {:<22} {:>9} {:>9}", "shift", "value", "points", "metric", "model",
          "+-");
    for (std::size_t p = 1; p < result.predictors.size(); ++p) {
      print(" {:>13}", result.predictors[p].predictor);
    }
    print("\n");
  }
  const std::string place = fmt::format("{:<13} {:>9} {:>6}", result.shift.name,
                                        value_text(result.shift), result.shift.spec.points);
  if (!result.skipped.empty()) print("{}  skipped: {}\n", place, result.skipped);
  if (result.predictors.empty()) return;
  const std::vector<Figure>& model = result.predictors.front().figures;
  for (std::size_t f = 0; f < model.size(); ++f) {
    if (!shown(model[f].metric)) continue;
    print("{}  {:<22} {:>9.4g} {:>9.2g}", place, model[f].metric, model[f].mean,
          model[f].standard_error);
    for (std::size_t p = 1; p < result.predictors.size(); ++p) {
      print(" {:>13.4g}", result.predictors[p].figures[f].mean);
    }
    print("\n");
  }
  std::fflush(stdout);
}

/// Means over the heads of the last layer.
void print_attention(const std::vector<IclShiftResult>& results) {
  print(
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
    print("{:<13} {:>9} {:>13} {:>9.4f} {:>9.4f}\n", result.shift.name, value_text(result.shift),
          planted ? fmt::format("{:.4f}", mass / heads) : "", entropy / heads, p_max / heads);
  }
}

/// The grid's sweep with the lists that were given in their place.
IclSweep chosen_sweep(const ShiftArguments& options, IclTask task) {
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

/// The options for that run's task, checked.
IclShiftOptions options_for(const ShiftArguments& arguments, const Config& config) {
  const IclTask task = icl_task(config.task.name);
  IclShiftOptions options = arguments.shifts;
  options.sampler = arguments.sampler.empty()
                        ? config.task.sampler
                        : choice_named<IclSampler>("--sampler", arguments.sampler);
  options.sweep = chosen_sweep(arguments, task);
  icl_shifts(task, options);
  return options;
}

Json evaluate(const ShiftArguments& arguments, const Config& config, Model& model) {
  const IclTask task = icl_task(config.task.name);
  const IclShiftOptions options = options_for(arguments, config);
  print("{} sequences of data seed {}{}\n", options.sequences, options.data_seed,
        task == IclTask::linear                ? ""
        : options.sampler == IclSampler::plain ? ", plain sampler"
                                               : ", balanced sampler");
  bool first = true;
  const std::vector<IclShiftResult> results = evaluate_icl_shifts(
      model, config.model.max_positions, task, options, [&](const IclShiftResult& result) {
        print_result(result, first);
        first = false;
      });
  print_attention(results);
  return to_json(task, options, results);
}

}  // namespace

std::vector<EvalSuite> icl_shift_suites(CLI::App& app) {
  constexpr std::int64_t kMostSequences = 1'000'000'000, kMostPoints = 1'000'000;
  const auto arguments = std::make_shared<ShiftArguments>();
  IclShiftOptions& shifts = arguments->shifts;
  CLI::App& group = *app.add_option_group("With --suite icl-shift");
  group.add_option("--sequences", shifts.sequences, "sequences of every shift")
      ->check(whole_number(1, kMostSequences))
      ->capture_default_str();
  group.add_option("--data-seed", shifts.data_seed, "seed of the sequences")
      ->check(whole_number(0))
      ->capture_default_str();
  group.add_option("--grid", shifts.grid, "values of the shifts: reduced or full")
      ->capture_default_str();
  group.add_option("--sampler", arguments->sampler,
                   "inputs of the quantifiers: balanced or plain (default: as trained)");
  group.add_option("--huge-position", shifts.huge_position, "position of the huge value, from 1")
      ->check(whole_number(1, kMostPoints))
      ->capture_default_str();
  const auto list = [&](const char* name, auto& values, const char* help) {
    return group
        .add_option(name, values, std::string(help) + ", separated by commas, not the grid's")
        ->delimiter(',')
        ->allow_extra_args(false);
  };
  list("--length", arguments->own.lengths, "points of longer sequences")
      ->check(whole_number(1, kMostPoints));
  list("--sigma", arguments->own.sigmas, "standard deviations of the inputs");
  list("--coefficients", arguments->own.coefficients,
       "standard deviations of a and b (icl-linear), also of `grid` and `both`");
  list("--huge", arguments->own.huge, "planted values");
  return {{.info = find_suite("icl-shift"),
           .groups = {&group},
           .check = [arguments](const Config& config) { options_for(*arguments, config); },
           .evaluate = [arguments](const Config& config,
                                   Model& model) { return evaluate(*arguments, config, model); }}};
}

}  // namespace ssa
