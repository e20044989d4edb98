// `ssa eval`: a trained model under one suite of measurements.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "cli/checks.h"
#include "cli/command.h"
#include "cli/config_flags.h"
#include "cli/device_flag.h"
#include "cli/eval_suite.h"
#include "config/version.h"
#include "eval/metric_kind.h"
#include "eval/model_json.h"
#include "files/durable_files.h"
#include "files/terminal.h"
#include "model/device.h"
#include "run/failure.h"
#include "run/run_data.h"
#include "run/run_folder.h"
#include "run/run_status.h"
#include "ssa/attention.h"
#include "tasks/task_tokenizer.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

struct EvalArguments {
  fs::path run;
  std::string suite;              ///< empty: the first one for the run's task
  std::string tokenizer, merges;  ///< empty: the run's
  std::optional<std::int64_t> checkpoint;
  std::string device = "cpu";
  EvaluationOptions options;
  Settings given;  ///< options that the user gave
};

/// How suites of a kind are run.
struct EvalWork {
  void (*check)(const Evaluation& evaluation, Config& config);
  Json (*evaluate)(const Evaluation& evaluation, const Config& config, Model& model);
  const char* less_memory;  ///< flags that lower what it takes, for messages
};

EvalWork work_of(SuiteKind kind) {
  switch (kind) {
    case SuiteKind::icl_shift:
      return {check_shifts, evaluate_shifts, "a shorter --length, fewer --sequences"};
    case SuiteKind::perplexity:
      return {check_perplexity, evaluate_perplexity, "shorter --lengths, --precision bfloat16"};
    case SuiteKind::choices:
      return {check_choices, evaluate_choices, "fewer --items, --precision bfloat16"};
    case SuiteKind::minimal_pairs:
      break;
  }
  return {check_pairs, evaluate_pairs, "--precision bfloat16"};
}

/// Names of the suites for which it holds.
template <class Holds>
std::vector<std::string> names_of_suites(const Holds& holds) {
  std::vector<std::string> names;
  for (const SuiteInfo& suite : kSuites) {
    if (holds(suite)) names.emplace_back(suite.name);
  }
  return names;
}

const SuiteInfo& chosen_suite(const EvalArguments& arguments, const std::string& task) {
  const auto found = std::ranges::find_if(kSuites, [&](const SuiteInfo& suite) {
    return suite.is_for(task) && (arguments.suite.empty() || arguments.suite == suite.name);
  });
  if (found == std::end(kSuites)) {
    const auto names = names_of_suites([&](const SuiteInfo& suite) { return suite.is_for(task); });
    throw std::invalid_argument(
        fmt::format("--suite {}: no such suite for a model of {}; there is {}{}", arguments.suite,
                    task, fmt::join(names, ", "), did_you_mean(arguments.suite, names)));
  }
  for (const Setting& setting : arguments.given) {
    if (takes(found->kind, setting.key)) continue;
    const auto other = std::ranges::find_if(
        kSuites, [&](const SuiteInfo& suite) { return takes(suite.kind, setting.key); });
    throw std::invalid_argument(fmt::format("{}: belongs to --suite {}, not to {}", setting.origin,
                                            other->name, found->name));
  }
  return *found;
}

/// Where the results go. Throws now, not after the measurements, where nothing can be written
/// there.
fs::path results_file(const fs::path& run_folder, const char* suite) {
  const fs::path folder = run_folder / "evals";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw std::runtime_error(
        fmt::format("{}: cannot be made: {}", folder.string(), error.message()));
  }
  sweep_temporaries(folder);
  const fs::path file = folder / fmt::format("{}.json", suite);
  const NewFile tried(file);
  return file;
}

/// Says of every row how its metric is compared.
void describe_metrics(Json& rows) {
  for (Json& row : rows) {
    const auto& metric = row.at("metric").get_ref<const std::string&>();
    if (!is_known_metric(metric)) {
      throw std::logic_error(fmt::format("eval/metric_kind.cc does not list {}", metric));
    }
    const MetricKind& kind = metric_kind(metric);
    row["better"] = name_of(kind.better);
    row["scale"] = name_of(kind.scale);
    if (!kind.unit.empty()) row["unit"] = kind.unit;
  }
}

void measure(const EvalArguments& arguments, Run& run, const SuiteInfo& suite) {
  const torch::Device device = find_device("--device", arguments.device);
  if (!arguments.tokenizer.empty()) {
    run.config.task.tokenizer = arguments.tokenizer;
    run.config.task.merges = arguments.merges;
  } else if (!run.config.task.tokenizer.empty()) {
    require_same_data(run, {{"task.tokenizer", hash_tokenizer(run.config.task)}});
  }
  const Evaluation evaluation = {&suite, arguments.options};
  const EvalWork work = work_of(suite.kind);
  work.check(evaluation, run.config);
  const fs::path file = results_file(run.folder, suite.name);
  const std::string name = fmt::format("{}: suite {}", run.folder.string(), suite.name);
  const LoadedModel loaded =
      with_memory_for(name + ": reading the model", "a smaller model takes less",
                      [&] { return load_model(run, arguments.checkpoint, device); });
  const std::string task(name_of(run.config.task.name));
  print("{}: {}, score {}, step {}; suite {}\n", run.folder.string(), task, run.config.model.score,
        loaded.step, suite.name);
  Json out = {{"schema", 1},         {"suite", suite.name},
              {"task", task},        {"score", run.config.model.score},
              {"step", loaded.step}, {"score_parameters", score_parameters_json(*loaded.model)}};
  out["program"] = {{"git", git_id()}, {"target", kernel_target()}};
  out["options"] = options_json(evaluation.options, suite.kind);
  out.update(with_memory_for(name, fmt::format("less takes: {}", work.less_memory),
                             [&] { return work.evaluate(evaluation, run.config, *loaded.model); }));
  describe_metrics(out.at("rows"));
  write_json(file, out);
  print("\nAll figures: {}\n", file.string());
}

/// A failure stands in the run folder too.
void evaluate(const EvalArguments& arguments) {
  Run run = open_run(arguments.run);
  run.config = with_found_data(run.config, run.folder);
  const SuiteInfo& suite = chosen_suite(arguments, std::string(name_of(run.config.task.name)));
  try {
    measure(arguments, run, suite);
  } catch (const std::exception&) {
    note_failed_evaluation(run.folder, suite.name, describe_current_exception());
    throw;
  }
  forget_failed_evaluation(run.folder, suite.name);
}

/// The flag of every option, below the names of the suites that have it.
void add_option_flags(CLI::App& app, EvalArguments& arguments) {
  const auto note = [&arguments](const Setting& setting) {
    try {
      set_option(arguments.options, setting);
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError(error.what());
    }
    arguments.given.push_back(setting);
  };
  const EvaluationOptions defaults;
  EvaluationOptions::sections([&](auto section_member) {
    const auto& section = defaults.*section_member;
    using Section = std::remove_cvref_t<decltype(section)>;
    const auto names =
        names_of_suites([](const SuiteInfo& suite) { return Section::is_of(suite.kind); });
    add_section_flags(app, section, fmt::format("With --suite {}", fmt::join(names, ", ")), note);
  });
}

}  // namespace

std::unique_ptr<Tokenizer> read_tokenizer(const LanguageOptions& options, const Config& config) {
  auto tokenizer = read_task_tokenizer(config);
  switch (options.special_tokens) {
    case SpecialTokens::text:
      return tokenizer;
    case SpecialTokens::found:
      break;
  }
  return find_special_tokens(std::move(tokenizer));
}

void add_eval(CLI::App& app, int&) {
  const auto arguments = std::make_shared<EvalArguments>();
  app.add_option("run", arguments->run, "run folder, as `ssa train --out` made it")->required();
  CLI::Option* suite = app.add_option("--suite", arguments->suite);
  app.add_option("--checkpoint", arguments->checkpoint, "step of the checkpoint (default: newest)")
      ->check(whole_number(0));
  add_device(app, arguments->device);
  CLI::Option* tokenizer = app.add_option("--tokenizer", arguments->tokenizer,
                                          "instead of the run's task.tokenizer, unchecked");
  app.add_option("--merges", arguments->merges, "merges.txt of that tokenizer")->needs(tokenizer);
  add_option_flags(app, *arguments);
  std::vector<std::string> known;
  for (const SuiteInfo& one : kSuites) known.push_back(fmt::format("{} = {}", one.name, one.help));
  suite->check(known_values(names_of_suites([](const SuiteInfo&) { return true; })));
  suite->description(fmt::format("what is measured: {} (default: the first one for the run's task)",
                                 fmt::join(known, ", ")));
  app.footer(
      "Writes RUN/evals/SUITE.json (docs/formats.md).\n"
      "Example: ssa eval runs/every --suite icl-shift --sequences 1000");
  app.callback([arguments] { evaluate(*arguments); });
}

}  // namespace ssa
