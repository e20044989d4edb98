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
#include <vector>

#include "cli/command.h"
#include "cli/eval_suite.h"
#include "cli/number.h"
#include "config/version.h"
#include "eval/metric_kind.h"
#include "eval/model_json.h"
#include "files/durable_files.h"
#include "run/run_folder.h"
#include "ssa/attention.h"
#include "tasks/task_tokenizer.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

std::vector<EvalSuite> suites(CLI::App& app) {
  std::vector<EvalSuite> all = icl_shift_suites(app);
  const auto language = std::make_shared<LanguageArguments>();
  language->group = app.add_option_group("With suites for models of text");
  language->group
      ->add_option("--precision", language->precision,
                   "of matrix products and attention: float32 or bfloat16")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  language->group->add_option("--end-token", language->end_token,
                              "of decoders: the token that ends a document and stands before each "
                              "text (default: <|endoftext|> or </s>)");
  language->group
      ->add_option("--special-tokens", language->special_tokens,
                   "special tokens that are written in a text (<s>, <|endoftext|>): text, or found "
                   "and encoded as what they are, as lm-evaluation-harness does")
      ->check(CLI::IsMember({"text", "found"}))
      ->capture_default_str();
  for (const auto add : {perplexity_suites, zero_shot_suites, minimal_pair_suites}) {
    std::ranges::move(add(app, language), std::back_inserter(all));
  }
  return all;
}

struct EvalArguments {
  fs::path run;
  std::string suite;  ///< empty: the first one for the run's task
  std::optional<std::int64_t> checkpoint;
  std::vector<EvalSuite> suites;
};

std::string names_of(const std::vector<EvalSuite>& suites, const std::string& task) {
  std::vector<std::string> names;
  for (const EvalSuite& suite : suites) {
    if (suite.info->is_for(task)) names.emplace_back(suite.info->name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

const EvalSuite& chosen_suite(const EvalArguments& arguments, const std::string& task) {
  const auto& suites = arguments.suites;
  const auto found = std::ranges::find_if(suites, [&](const EvalSuite& suite) {
    return arguments.suite.empty() ? suite.info->is_for(task) : suite.info->name == arguments.suite;
  });
  if (found == suites.end() || !found->info->is_for(task)) {
    throw std::invalid_argument(
        fmt::format("--suite {}: no such suite for a model of {}; there is {}", arguments.suite,
                    task, names_of(suites, task)));
  }
  for (const EvalSuite& other : suites) {
    for (const CLI::App* group : other.groups) {
      if (std::ranges::find(found->groups, group) != found->groups.end()) continue;
      for (const CLI::Option* option : group->get_options()) {
        if (option->count() == 0) continue;
        throw std::invalid_argument(fmt::format("{}: belongs to --suite {}, not to {}",
                                                option->get_name(), other.info->name,
                                                found->info->name));
      }
    }
  }
  return *found;
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

void evaluate(const EvalArguments& arguments) {
  Run run = open_run(arguments.run);
  const std::string& task = run.config.task.name;
  if (!run.config.task.tokenizer.empty()) {
    require_same_data(run, {{"task.tokenizer", hash_tokenizer(run.config.task)}});
  }
  const EvalSuite& suite = chosen_suite(arguments, task);
  suite.check(run.config);
  const LoadedModel loaded = load_model(run, arguments.checkpoint);
  fmt::print("{}: {}, score {}, step {}; suite {}\n", run.folder.string(), task,
             run.config.model.score, loaded.step, suite.info->name);
  Json out = {{"schema", 1},         {"suite", suite.info->name},
              {"task", task},        {"score", run.config.model.score},
              {"step", loaded.step}, {"score_parameters", score_parameters_json(*loaded.model)}};
  out["program"] = {{"git", git_id()}, {"target", kernel_target()}};
  out.update(suite.evaluate(run.config, *loaded.model));
  describe_metrics(out.at("rows"));
  const fs::path file = run.folder / "evals" / fmt::format("{}.json", suite.info->name);
  fs::create_directories(file.parent_path());
  write_json(file, out);
  fmt::print("\nAll figures: {}\n", file.string());
}

}  // namespace

std::unique_ptr<Tokenizer> LanguageArguments::read_tokenizer(const Config& config) const {
  auto tokenizer = read_task_tokenizer(config);
  return special_tokens == "found" ? find_special_tokens(std::move(tokenizer))
                                   : std::move(tokenizer);
}

void add_eval(CLI::App& app, int&) {
  const auto arguments = std::make_shared<EvalArguments>();
  app.add_option("run", arguments->run, "run folder, as `ssa train --out` made it")->required();
  CLI::Option* suite = app.add_option("--suite", arguments->suite);
  app.add_option("--checkpoint", arguments->checkpoint, "step of the checkpoint (default: newest)")
      ->check(whole_number(0));
  arguments->suites = suites(app);
  std::vector<std::string> known;
  for (const EvalSuite& one : arguments->suites) {
    known.push_back(fmt::format("{} = {}", one.info->name, one.info->help));
  }
  suite->description(fmt::format("what is measured: {} (default: the first one for the run's task)",
                                 fmt::join(known, ", ")));
  app.footer(
      "Writes RUN/evals/SUITE.json (docs/formats.md).\n"
      "Example: ssa eval runs/every --suite icl-shift --sequences 1000");
  app.callback([arguments] { evaluate(*arguments); });
}

}  // namespace ssa
