// `ssa reproduce`: a comparison from one file, and its table.
#include <fmt/format.h>
#include <fnmatch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/checks.h"
#include "cli/command.h"
#include "cli/config_flags.h"
#include "config/counted.h"
#include "experiment/closing_verdict.h"
#include "experiment/comparison.h"
#include "experiment/cost.h"
#include "experiment/experiment.h"
#include "experiment/results.h"
#include "experiment/runner.h"
#include "experiment/table_text.h"
#include "files/durable_files.h"
#include "files/file_descriptor.h"
#include "files/terminal.h"
#include "run/run_folder.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

struct ReproduceOptions {
  fs::path file, out, markdown;
  std::int64_t jobs = 0;  ///< 0 = fill the cores
  std::vector<std::string> variants;
  bool list = false, table = false, cost = false, all_metrics = false, smoke = false;
};

/// What --smoke tries: one seed, every score of the experiment once, every variant with two scores.
void keep_smoke_cells(std::vector<Cell>& cells, std::int64_t seed) {
  std::set<std::string> tried;
  std::map<std::string, int> of_variant;
  std::erase_if(cells, [&](const Cell& cell) {
    if (cell.seed != seed || (of_variant[cell.variant] >= 2 && tried.contains(cell.score)))
      return true;
    ++of_variant[cell.variant];
    tried.insert(cell.score);
    return false;
  });
}

/// The experiment; with --smoke a few cells of 2 steps, evaluated on a few sequences.
Experiment load(ReproduceOptions& options) {
  Experiment experiment = load_experiment(
      options.file, options.smoke ? settings_of(smoke_values(), "--smoke") : Settings());
  if (options.smoke) {
    keep_smoke_cells(experiment.cells, experiment.settings.first_seed);
    if (experiment.measures_shifts()) {
      experiment.evaluation["sequences"] = 2;
      experiment.evaluation["grid"] = "reduced";
    }
  }
  if (options.out.empty()) {
    options.out = fs::path("runs") / (experiment.settings.name + (options.smoke ? "-smoke" : ""));
  }
  return experiment;
}

/// Drops the cells of variants that --variant does not name.
void keep_variants(std::vector<Work>& work, const Experiment& experiment,
                   const std::vector<std::string>& variants) {
  for (const std::string& name : variants) {
    if (std::ranges::find(experiment.variants, name) == experiment.variants.end()) {
      throw std::invalid_argument(fmt::format(
          "--variant {}: {} has no such variant; there are {}{}", name, experiment.file.string(),
          fmt::join(experiment.variants, ", "), did_you_mean(name, experiment.variants)));
    }
  }
  std::erase_if(work, [&](const Work& w) {
    return !variants.empty() && std::ranges::find(variants, w.cell.variant) == variants.end();
  });
}

/// Refuses a folder of something else. Of temporary files a killed process may have left some.
void check_folder(const fs::path& out) {
  if (fs::exists(out / "experiment.toml")) return;
  const bool empty = std::ranges::all_of(fs::directory_iterator(out), [](const auto& entry) {
    return entry.path().filename().string().starts_with(".");
  });
  if (empty) return;
  throw std::runtime_error(
      fmt::format("{}: holds other files and no experiment.toml: use another --out", out.string()));
}

std::string state_of(const Cell& cell, const std::vector<Work>& left, const fs::path& out) {
  const bool finished =
      std::ranges::none_of(left, [&](const Work& work) { return work.cell.name() == cell.name(); });
  if (finished) return "finished";
  const fs::path run = out / cell.run();
  const auto steps = holds_run(run) ? checkpoint_steps(run) : std::vector<std::int64_t>();
  return steps.empty() ? "to do"
                       : fmt::format("at step {} of {}", steps.back(), cell.config.train.steps);
}

void list_cells(const Experiment& experiment, const std::vector<Work>& left, const fs::path& out) {
  for (const Cell& cell : experiment.cells) {
    const ModelConfig& model = cell.config.model;
    print("{}: {}, {}, {}, width {}, {} of {}: {}\n", cell.name(), name_of(cell.config.task.name),
          counted(model.layers, "layer"), counted(model.heads, "head"), model.width,
          counted(cell.config.train.steps, "step"), cell.config.train.batch,
          state_of(cell, left, out));
  }
  print("{}, {} left; folder {}\n", counted(experiment.cells.size(), "cell"), left.size(),
        out.string());
}

/// The command that makes the same table, with what differs from the defaults.
std::string command_line(const ReproduceOptions& options) {
  return fmt::format("ssa reproduce {} --out {}{}", options.file.string(), options.out.string(),
                     options.smoke ? " --smoke" : "");
}

constexpr const char* kParametersHead =
    "\n## Score parameters after training\n\nMeans over seeds ± the half width of the 95 % "
    "interval; "
    "those that are fixed stay where they began.\n\n";

constexpr std::string_view kGeneratedBegin = "<!-- generated:begin -->\n",
                           kGeneratedEnd = "<!-- generated:end -->\n";

/// What stands around the generated part of an existing page, so that a text outlives the next
/// table. Refuses a file without such a part: it was not made here.
std::pair<std::string, std::string> around_generated(const fs::path& file) {
  if (!fs::exists(file)) return {};
  const std::string text = read_file(file);
  const std::size_t first = text.find(kGeneratedBegin), last = text.find(kGeneratedEnd);
  if (first == std::string::npos || last == std::string::npos || first > last) {
    throw std::runtime_error(fmt::format(
        "--markdown {}: exists without a part between the lines <!-- generated:begin --> "
        "and <!-- generated:end --> to write into: add them, or name another file",
        file.string()));
  }
  return {text.substr(0, first), text.substr(last + kGeneratedEnd.size())};
}

/// Refuses before any work what could only fail after it.
void check_markdown(const fs::path& file) {
  if (file.empty()) return;
  around_generated(file);
  if (file.has_parent_path() && !fs::is_directory(file.parent_path())) {
    throw std::runtime_error(fmt::format("--markdown {}: there is no folder {}", file.string(),
                                         file.parent_path().string()));
  }
}

void write_markdown(const fs::path& file, const std::string& generated) {
  const auto [before, after] = around_generated(file);
  write_file(file,
             fmt::format("{}{}{}{}{}", before, kGeneratedBegin, generated, kGeneratedEnd, after));
}

const std::string kEndpointsHead =
    "Primary endpoints, named before the first run (p: paired t-test, Holm: over all of them, "
    "flips: "
    "exact sign-flip test):\n\n";

/// What a reader of the table must know, and what is not in it: a paragraph each.
std::vector<std::string> table_notes(const Experiment& experiment,
                                     const std::vector<CellResult>& results,
                                     const std::vector<ComparisonRow>& rows, std::size_t missing) {
  std::vector<std::string> notes = {std::string(kTableNotes)};
  for (const VerdictCount& count : count_verdicts(rows)) notes.push_back(format_count(count));
  if (missing > 0) {
    notes.push_back(fmt::format("{} of {} cells are not finished and not in the table.\n", missing,
                                experiment.cells.size()));
  }
  const auto foreign = std::ranges::count_if(results, [&](const CellResult& result) {
    return find_cell(experiment, result.variant, result.score, result.seed) == nullptr;
  });
  if (foreign > 0) {
    notes.push_back(
        fmt::format("{} lines of results.jsonl belong to no cell of {} and are left out.\n",
                    foreign, experiment.file.string()));
  }
  if (std::ranges::any_of(results, shares_test_sequences)) {
    notes.emplace_back(
        "These results are of an earlier version: all seeds were tested on the same sequences, so "
        "that the intervals leave out what other sequences would change.\n");
  }
  return notes;
}

std::string format_notes(const std::vector<std::string>& notes, TableStyle style) {
  std::string text;
  for (const std::string& note : notes) text += style == TableStyle::kText ? wrap(note) : note;
  return text;
}

/// Prints the table, writes table.json, verdicts.json and, if asked for, the Markdown file.
void show_table(const Experiment& experiment, const ReproduceOptions& options) {
  bool cut_off = false;
  const std::vector<CellResult> results = read_results(results_file(options.out), cut_off);
  const std::vector<ComparisonRow> rows = compare(experiment, results);
  if (rows.empty()) {
    throw std::runtime_error(fmt::format("{}: no finished cell of {} yet",
                                         results_file(options.out).string(),
                                         experiment.file.string()));
  }
  for (const std::string& pattern : experiment.settings.metrics) {
    const bool found = std::ranges::any_of(rows, [&](const ComparisonRow& row) {
      return fnmatch(pattern.c_str(), row.metric.c_str(), 0) == 0;
    });
    if (!found) {
      warn(fmt::format("note: experiment.metrics: \"{}\" matches no metric", pattern));
    }
  }
  const std::vector<EndpointRow> endpoints = compare_endpoints(experiment, results);
  const std::vector<ComparisonRow> shown = options.all_metrics ? rows : rows_of_table(rows);
  const std::size_t missing = unfinished(experiment, results).size();
  const std::vector<std::string> notes = table_notes(experiment, results, rows, missing);
  const auto text = [&](TableStyle style) {
    const std::string decided = format_endpoints(endpoints, style);
    const std::string verdicts = verdict_table(shown, style);
    return fmt::format(
        "{}{}\n{}{}{}", decided.empty() ? "" : kEndpointsHead + decided + "\n",
        format_table(shown, style), format_notes(notes, style),
        verdicts.empty() ? "" : "\nErrors against softmax's, in how many variants:\n\n", verdicts);
  };
  print("\n{}", text(TableStyle::kText));
  const auto finished = static_cast<std::int64_t>(experiment.cells.size() - missing);
  write_json(options.out / "table.json", to_json(rows));
  write_json(options.out / "verdicts.json", verdicts_json(experiment, finished, rows, endpoints));
  if (!options.markdown.empty()) {
    const std::string parameters =
        markdown_score_parameters(final_score_parameters(experiment, results));
    write_markdown(
        options.markdown,
        fmt::format("## Table\n\nCommand: `{} --markdown {}`\n\n{}{}{}", command_line(options),
                    options.markdown.string(), text(TableStyle::kMarkdown),
                    parameters.empty() ? "" : kParametersHead, parameters));
  }
  print(
      "\nAll {} rows and every column: {}\nReport: python -m ssa_attention.report {} -o "
      "report.html\n\n{}",
      rows.size(), (options.out / "table.json").string(), options.out.string(),
      closing_verdict(rows, endpoints, experiment.cells.size(), missing));
}

/// Says how long what is left takes on this machine.
int say_cost(const Experiment& experiment, const ReproduceOptions& options,
             std::vector<Work> work) {
  keep_variants(work, experiment, options.variants);
  find_all_data(work);
  const CellRunner runner{"/proc/self/exe", options.out,
                          options.jobs > 0 ? options.jobs : default_jobs(experiment)};
  print("{:<32} {:<16} {:>6} {:>8} {:>9} {:>9}\n", "variant", "score", "cells", "steps", "ms/step",
        "hours");
  double hours = 0;
  for (const CellCost& cost : measure_cost(work, runner)) {
    print("{:<32} {:<16} {:>6} {:>8} {:>9.1f} {:>9.2f}\n", cost.variant, cost.score, cost.cells,
          cost.steps, cost.milliseconds, cost.hours());
    hours += cost.hours();
  }
  print(
      "{:.1f} hours of training one cell at a time on {} threads each, from {} steps of each kind; "
      "{} cells at once share the machine. Evaluations come on top.\n",
      hours, work.empty() ? 0 : threads_per_cell(work.front().cell.config, runner.jobs), kCostSteps,
      runner.jobs);
  return 0;
}

int run_experiment(const Experiment& experiment, const ReproduceOptions& options) {
  const RunLock lock(options.out);  // before anything is looked at or written
  check_folder(options.out);
  sweep_temporaries(options.out);
  bool cut_off = false;
  const std::vector<CellResult> results = read_results(results_file(options.out), cut_off);
  if (cut_off) {
    print("{}: its last line was cut off; that cell is evaluated again\n",
          results_file(options.out).string());
  }
  check_unchanged(experiment, results, options.out);
  write_file(options.out / "experiment.toml", read_file(experiment.file));
  std::vector<Work> work = unfinished(experiment, results);
  keep_variants(work, experiment, options.variants);
  if (!work.empty() && std::ranges::any_of(results, shares_test_sequences)) {
    throw std::runtime_error(fmt::format(
        "{}: its lines are of an earlier version, which tested all seeds on the same sequences; "
        "now "
        "each seed has its own: use another --out, or delete the file to evaluate the trained runs "
        "again",
        results_file(options.out).string()));
  }
  // Not the file it was started from, which a build may replace meanwhile: this very program.
  const CellRunner runner{"/proc/self/exe", options.out,
                          options.jobs > 0 ? options.jobs : default_jobs(experiment)};
  if (!work.empty()) {
    print("{}: {} of {} to run, {} at once; folder {}\n", experiment.settings.name, work.size(),
          counted(experiment.cells.size(), "cell"), runner.jobs, options.out.string());
    std::fflush(stdout);
  }
  const RunOutcome outcome = run_cells(experiment, work, results, runner);
  if (outcome.interrupted != 0) {
    print("stopped; the same command goes on: {}\n", command_line(options));
    return 128 + outcome.interrupted;
  }
  if (outcome.failed.size() < work.size() || !results.empty()) show_table(experiment, options);
  for (const std::string& failure : outcome.failed) warn("failed: " + failure);
  return outcome.failed.empty() ? 0 : 1;
}

int reproduce(ReproduceOptions options) {
  const Experiment experiment = load(options);
  check_markdown(options.markdown);
  if (!options.list && !options.table && !options.cost) return run_experiment(experiment, options);
  bool cut_off = false;
  const std::vector<CellResult> results = read_results(results_file(options.out), cut_off);
  check_unchanged(experiment, results, options.out);
  if (options.cost) return say_cost(experiment, options, unfinished(experiment, results));
  if (options.list) {
    list_cells(experiment, unfinished(experiment, results), options.out);
  } else {
    show_table(experiment, options);
  }
  return 0;
}

}  // namespace

void add_reproduce(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<ReproduceOptions>();
  app.add_option("config", options->file, "an experiment, such as configs/experiments/quick.toml")
      ->required();
  app.add_option("--out", options->out, "folder of runs and results (default: runs/NAME)");
  app.add_option("--jobs", options->jobs, "cells at once (default: as many as fill the cores)")
      ->check(whole_number(1, 4096));
  app.add_option("--variant", options->variants, "run only this variant (may be repeated)");
  app.add_flag("--list", options->list, "list the cells and how far they are; run nothing");
  app.add_flag("--table", options->table, "print the table of what is finished; run nothing")
      ->excludes("--list");
  app.add_flag("--cost", options->cost,
               "say how long what is left takes here, from 20 steps of each variant and score")
      ->excludes("--list")
      ->excludes("--table");
  app.add_flag("--all-metrics", options->all_metrics, "print every metric, not experiment.metrics");
  app.add_flag("--smoke", options->smoke,
               "try it: 2 steps a cell, one seed, every score once, every variant with two scores");
  app.add_option("--markdown", options->markdown,
                 "also write the table to this Markdown file, or into it between the lines "
                 "<!-- generated:begin --> and <!-- generated:end -->");
  app.footer(
      "Finished cells are kept in results.jsonl; the same command goes on where it stopped.\n"
      "Example: ssa reproduce configs/experiments/quick.toml --out runs/quick");
  app.callback([options, &exit_code] { exit_code = reproduce(*options); });
}

}  // namespace ssa
