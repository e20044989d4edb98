// `ssa scores`: the list of scoring functions.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "ssa/score_info.h"

namespace ssa {
namespace {

void print_scores() {
  fmt::print("Attention weights are softmax(phi(s)) over the visible keys, s the scaled score.\n");
  for (const ScoreInfo& score : scores()) {
    fmt::print("\n{:<12} phi(s) = {}\n{:<12} {}\n", score.name, score.formula, "", score.help);
    for (const ParamInfo& parameter : score.params) {
      fmt::print("{:<12} {} = {:.6g}, {}: {}\n", "", parameter.name, parameter.initial,
                 parameter.trained ? "trained" : "fixed", parameter.help);
    }
  }
}

}  // namespace

void add_scores(CLI::App& app, int&) {
  app.footer("Example: ssa scores");
  app.callback(print_scores);
}

}  // namespace ssa
