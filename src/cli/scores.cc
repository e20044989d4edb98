// `ssa scores`: the list of scoring functions.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/command.h"
#include "files/terminal.h"
#include "ssa/score_info.h"

namespace ssa {
namespace {

void print_scores() {
  print(
      "s is the scaled score, N the number of keys that the row sees. Weights are softmax(phi(s)) "
      "over\n"
      "the visible keys, or p as given: then there are no fused kernels.\n");
  for (const ScoreInfo& score : scores()) {
    print("\n{}\n", score.name);
    print("    {} = {}\n", score.family == ScoreFamily::kPhi ? "phi(s)" : "p", score.formula);
    if (!score.sink.empty()) print("    the normaliser also has e^{}\n", score.sink);
    print("    {}\n", score.help);
    for (const ParamInfo& parameter : score.params) {
      print("    {} = {:.6g}, {}: {}\n", parameter.name, parameter.initial,
            parameter.trained ? "trained" : "fixed", parameter.help);
    }
  }
}

/// "φ = s, e^z in the normaliser" or "p = …".
std::string formula_of(const ScoreInfo& score) {
  std::string text = score.family == ScoreFamily::kPhi ? "φ = " : "p = ";
  text += score.formula;
  if (!score.sink.empty()) text += fmt::format(", e^{} in the normaliser", score.sink);
  return text;
}

/// A cell of a Markdown table, where | would begin the next one.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

void print_markdown() {
  print("| name | φ(s), or the weights p | parameters | |\n|---|---|---|---|\n");
  for (const ScoreInfo& score : scores()) {
    std::string parameters;
    for (const ParamInfo& parameter : score.params) {
      parameters +=
          fmt::format("{}{} = {:.6g} ({})", parameters.empty() ? "" : ", ", parameter.name,
                      parameter.initial, parameter.trained ? "trained" : "fixed");
    }
    print("| `{}` | {} | {} | {} |\n", score.name, cell(formula_of(score)),
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
