// `ssa eval --suite icl-shift`: a trained in-context model under distribution shifts.
#include "eval/icl_shift.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/eval_suite.h"
#include "config/counted.h"
#include "eval/metric_kind.h"
#include "files/terminal.h"

namespace ssa {
namespace {

std::string value_text(const IclShift& shift) {
  std::string text;
  for (const double value : shift.value) {
    text += fmt::format("{}{:g}", text.empty() ? "" : " x ", value);
  }
  return text;
}

/// One line per primary metric; the first result's line is preceded by the head of the table.
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
    if (!metric_kind(model[f].metric).primary) continue;
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

/// The options for that run's task, checked.
IclShiftOptions options_for(const Evaluation& evaluation, const Config& config) {
  IclShiftOptions options = evaluation.options.icl_shift;
  if (!options.sampler) options.sampler = config.task.sampler;
  icl_shifts(icl_task(config.task.name), options);
  return options;
}

}  // namespace

void check_shifts(const Evaluation& evaluation, Config& config) { options_for(evaluation, config); }

Json evaluate_shifts(const Evaluation& evaluation, const Config& config, Model& model) {
  const IclTask task = icl_task(config.task.name);
  const IclShiftOptions options = options_for(evaluation, config);
  print("{} of data seed {}{}\n", counted(options.sequences, "sequence"), options.data_seed,
        task == IclTask::linear ? "" : fmt::format(", {} sampler", name_of(*options.sampler)));
  const std::size_t all = icl_shifts(task, options).size();
  std::size_t done = 0;
  const auto show_progress = [&] { redraw(fmt::format("shift {} of {}", done + 1, all)); };
  show_progress();
  const std::vector<IclShiftResult> results = evaluate_icl_shifts(
      model, config.model.max_positions, task, options, [&](const IclShiftResult& result) {
        redraw("");
        print_result(result, done == 0);
        if (++done < all) show_progress();
      });
  print_attention(results);
  return to_json(task, options, results);
}

}  // namespace ssa
