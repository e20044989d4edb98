// `ssa scores`: the list of scoring functions.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

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

/// A cell of a Markdown table, where | would begin the next one.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

void print_markdown() {
  fmt::print("| name | φ(s) | parameters | |\n|---|---|---|---|\n");
  for (const ScoreInfo& score : scores()) {
    std::string parameters;
    for (const ParamInfo& parameter : score.params) {
      parameters +=
          fmt::format("{}{} = {:.6g} ({})", parameters.empty() ? "" : ", ", parameter.name,
                      parameter.initial, parameter.trained ? "trained" : "fixed");
    }
    fmt::print("| `{}` | {} | {} | {} |\n", score.name, cell(score.formula),
               parameters.empty() ? "–" : parameters, cell(score.help));
  }
}

}  // namespace

void add_scores(CLI::App& app, int&) {
  const auto markdown = std::make_shared<bool>(false);
  app.add_flag("--markdown", *markdown, "print the table of the README");
  app.footer("Example: ssa scores");
  app.callback([markdown] { *markdown ? print_markdown() : print_scores(); });
}

}  // namespace ssa
