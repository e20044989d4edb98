// A comparison described by one TOML file: variants × scores × seeds × evaluations.
//
//   [experiment]            name, scores, seeds, evaluations, metrics, margin
//   [evaluation]            options of the evaluations (eval/options.h)
//   [model] [task] [train]  what every cell starts from: the keys of a training config
//   [scores.LABEL]          keys for that score only; without model.score the label is the score
//   [[variant]]             name, keys for that variant, optionally its own scores and seeds
//   [[endpoint]]            what the experiment is to decide, named before it is run
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace ssa {

/// The score that differences are taken to.
inline constexpr std::string_view kBaselineScore = "softmax";

/// Names of every evaluation suite, in the order of the list.
std::vector<std::string> suite_names();

struct ExperimentConfig {
  static constexpr std::string_view kSection = "experiment";

  std::string name;
  std::vector<std::string> scores = {"softmax", "ssa"};
  std::int64_t seeds = 3;
  std::vector<std::string> evaluations = {"icl-shift"};
  std::int64_t first_seed = 1;
  std::vector<std::string> metrics = {"*"};
  double margin = 0;
  double percent_margin = 0;

  template <class Visit>
  static void fields(Visit&& visit) {
    using C = ExperimentConfig;
    visit(Field{.name = "name", .help = "letters, digits, dots and dashes; names the folder"},
          &C::name);
    visit(Field{.name = "scores",
                .help = "scoring functions, or labels of [scores.LABEL]; \"*\" is every function"},
          &C::scores);
    visit(Field{.name = "seeds", .help = "how many, from first_seed on", .least = 1, .most = 10000},
          &C::seeds);
    visit(Field{.name = "first_seed", .help = "the first one", .least = 1, .most = 1e9},
          &C::first_seed);
    visit(Field{.name = "evaluations", .help = "what is measured", .choices = suite_names()},
          &C::evaluations);
    visit(
        Field{.name = "metrics",
              .help = "which metrics the printed table shows: patterns such as \"sigma=*/wrong\""},
        &C::metrics);
    visit(Field{.name = "margin",
                .help = "factor between two errors (of rates: between their odds) that count as "
                        "equal, above 1; 0 = nothing is called equivalent",
                .least = 0},
          &C::margin);
    visit(Field{.name = "percent_margin",
                .help = "percentage points between two accuracies that count as equal; 0 = none",
                .least = 0},
          &C::percent_margin);
  }
};

/// [[endpoint]]: a difference to softmax that the experiment was made to decide. Over all of a
/// file's endpoints the error of the first kind is held (Holm).
struct EndpointConfig {
  static constexpr std::string_view kSection = "endpoint";

  std::string name, variant, evaluation;  ///< evaluation: by default the experiment's first
  std::vector<std::string> metrics;       ///< whose mean, on their scale, is compared
  std::vector<std::string> scores = {"ssa"};

  template <class Visit>
  static void fields(Visit&& visit) {
    using C = EndpointConfig;
    visit(Field{.name = "name", .help = "in tables"}, &C::name);
    visit(Field{.name = "variant", .help = "where it is measured"}, &C::variant);
    visit(Field{.name = "evaluation", .help = "by default the experiment's first"}, &C::evaluation);
    visit(Field{.name = "metrics", .help = "keys such as \"sigma=5/40/wrong\"; their mean counts"},
          &C::metrics);
    visit(Field{.name = "scores", .help = "that are compared with softmax"}, &C::scores);
  }
};

/// One training run. Its evaluations follow it.
struct Cell {
  std::string variant, score;
  std::int64_t seed;
  Config config;

  /// runs/VARIANT/SCORE/seed-K, below the experiment's folder.
  std::filesystem::path run() const;
  /// "VARIANT SCORE seed K", as progress lines say it.
  std::string name() const;
};

struct Experiment {
  std::filesystem::path file;
  ExperimentConfig settings;
  Json evaluation;  ///< [evaluation], checked (eval/options.h): {"sequences": 6400, …}
  std::vector<std::string> variants;  ///< in the order of the file
  std::vector<Cell> cells;            ///< seeds outermost: early results are whole comparisons
  std::vector<EndpointConfig> endpoints;

  /// Whether its evaluation is that of in-context tasks (there is no other for these, and no task
  /// has it beside others).
  bool measures_shifts() const { return settings.evaluations.front() == "icl-shift"; }
};

/// Reads and validates all of it; `overrides` go over every cell. Throws std::runtime_error or
/// std::invalid_argument whose one line names file, line and key, and the nearest known name of an
/// unknown one.
Experiment load_experiment(const std::filesystem::path& file, const Settings& overrides = {});

/// The cell of that variant, score and seed; null if there is none.
const Cell* find_cell(const Experiment& experiment, const std::string& variant,
                      const std::string& score, std::int64_t seed);

/// The cell's options of its evaluations: [evaluation], and for in-context tasks a data_seed of its
/// own, so that every seed is tested on its own sequences (and all scores of a seed on the same).
Json evaluation_options(const Experiment& experiment, const Cell& cell);

/// "train.steps = 1000, now 2000" for the first field that differs, "" if none does. The thread
/// count is left out: it follows from the machine and the number of jobs.
std::string first_difference(const Json& before, const Json& now);

}  // namespace ssa
