// `ssa theory`: the two theorems, fitted against predicted slopes.
#include "theory/theory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/command.h"
#include "files/durable_files.h"
#include "files/terminal.h"

namespace ssa {
namespace {

struct TheoryOptions {
  std::vector<std::string> scores;
  std::filesystem::path json;
  /// Of max(1, |predicted slope|). The tails are finite: SSA's fits are off by up to 4e-5.
  double tolerance = 0.01;
};

std::string parameter_text(const ScoreInfo& score, const std::vector<double>& params) {
  std::string text;
  for (std::size_t i = 0; i < params.size(); ++i) {
    text += fmt::format("{}{}={:g}", i == 0 ? "" : " ", score.params[i].name, params[i]);
  }
  return text;
}

std::string row_text(const TheoremCurve& curve) {
  std::string text = curve.theorem == "magnification" ? "x*(" : "x, (";
  for (std::size_t i = 0; i < curve.row.size(); ++i) {
    text += fmt::format("{}{:g}", i == 0 ? "" : ", ", curve.row[i]);
  }
  return text + ")";
}

/// Rounded to the four digits that are printed; adding 0 turns -0 into 0.
double shown(double slope) { return std::round(slope * 1e4) / 1e4 + 0.0; }

Json to_json(const TheoremCurve& curve) {
  Json params = Json::object();
  const ScoreInfo& score = find_score(curve.score);
  for (std::size_t i = 0; i < curve.params.size(); ++i) {
    params[std::string(score.params[i].name)] = curve.params[i];
  }
  return {{"theorem", curve.theorem},
          {"score", curve.score},
          {"params", params},
          {"case", curve.case_name},
          {"row", curve.row},
          {"axis", curve.log_axis ? "log" : "linear"},
          {"x", curve.x},
          {"log_miss", curve.log_miss},
          {"fit_from", curve.fit_from},
          {"fitted_slope", curve.fitted_slope},
          {"predicted_slope", curve.predicted_slope}};
}

void theory(const TheoryOptions& options) {
  if (!(options.tolerance > 0 && std::isfinite(options.tolerance))) {
    throw std::invalid_argument(
        fmt::format("--tolerance {}: must be a number above 0", options.tolerance));
  }
  std::vector<const ScoreInfo*> chosen;
  const std::vector<const ScoreInfo*> known = theorem_scores();
  for (const std::string& name : options.scores) {
    chosen.push_back(&find_score(name));
    const auto named = [&](const ScoreInfo* score) { return score->name == name; };
    if (std::ranges::any_of(known, named)) continue;
    std::vector<std::string_view> names;
    for (const ScoreInfo* score : known) names.push_back(score->name);
    throw std::invalid_argument(
        fmt::format("--score {}: the theorems are about functions of one score at a time: {}", name,
                    fmt::join(names, ", ")));
  }
  if (chosen.empty()) chosen = known;

  print(
      "Slope of log(1 - p_max) in the tail: magnification multiplies a row of scores by x,\n"
      "disproportion puts one score x beside the row.\n\n"
      "{:<12} {:<12} {:<13} {:<21} {:<15} {:<9} {:>10} {:>10}\n",
      "score", "parameters", "theorem", "case", "scores", "per unit", "fitted", "predicted");
  Json theorems = Json::array();
  std::vector<std::string> failed;
  for (const ScoreInfo* score : chosen) {
    std::vector<double> params;
    for (const ParamInfo& parameter : score->params) params.push_back(parameter.initial);
    for (const TheoremCurve& curve : measure_theorems(*score, params)) {
      theorems.push_back(to_json(curve));
      const bool holds = curve.holds(options.tolerance);
      if (!holds) failed.push_back(fmt::format("{}, {}", curve.score, curve.case_name));
      print("{:<12} {:<12} {:<13} {:<21} {:<15} {:<9} {:>10.4f} {:>10.4f}{}\n", curve.score,
            parameter_text(*score, params), curve.theorem, curve.case_name, row_text(curve),
            curve.log_axis ? "of log x" : "of x", shown(curve.fitted_slope),
            shown(curve.predicted_slope), holds ? "" : "  differs");
    }
  }
  if (!options.json.empty()) {
    write_json(
        options.json,
        {{"schema", 1}, {"tolerance", options.tolerance}, {"theorems", std::move(theorems)}});
    print("\nCurves: {}\n", options.json.string());
  }
  if (!failed.empty()) {
    throw std::runtime_error(fmt::format("theory: {} fitted slopes are off by more than {:g} %: {}",
                                         failed.size(), 100 * options.tolerance,
                                         fmt::join(failed, "; ")));
  }
}

}  // namespace

void add_theory(CLI::App& app, int&) {
  const auto options = std::make_shared<TheoryOptions>();
  app.add_option("--score", options->scores, "scoring function (may be repeated; default: all)")
      ->allow_extra_args(false);
  app.add_option("--json", options->json, "also write the curves to this file, for the report");
  app.add_option("--tolerance", options->tolerance,
                 "fail when a fitted slope is further off, as a share of max(1, |predicted|)")
      ->capture_default_str();
  app.footer("Example: ssa theory --score softmax --score ssa --json theory.json");
  app.callback([options] { theory(*options); });
}

}  // namespace ssa
