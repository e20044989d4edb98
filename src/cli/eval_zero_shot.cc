// `ssa eval --suite zero-shot`: what a language model makes of multiple-choice tasks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <stdexcept>

#include "cli/checks.h"
#include "cli/eval_suite.h"
#include "config/counted.h"
#include "eval/choice_task.h"
#include "files/data_file.h"
#include "files/durable_files.h"
#include "files/file_hash.h"
#include "files/terminal.h"
#include "model/autocast.h"
#include "tasks/task_tokenizer.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

struct FoundTask {
  ChoiceTask task;
  fs::path data;
};

/// The tasks whose data is there. Of a folder the others are left out and named; a file that was
/// asked for must have its data.
std::vector<FoundTask> find_tasks(const ChoiceOptions& options, std::vector<std::string>& missing) {
  std::vector<FoundTask> found;
  const auto add = [&](const fs::path& file, bool required) {
    const ChoiceTask task = read_choice_task(file);
    const auto same = [&](const FoundTask& one) { return one.task.name == task.name; };
    if (std::ranges::any_of(found, same)) {
      throw std::invalid_argument(fmt::format(
          "--tasks: {}: there is another task of the name \"{}\"", file.string(), task.name));
    }
    try {
      found.push_back({task, find_data(task.file, file.string() + ": task.file")});
    } catch (const std::runtime_error&) {
      if (required) throw;
      missing.push_back(task.name);
    }
  };
  for (const std::string& path : options.tasks) {
    if (!fs::is_directory(path)) {
      add(path, true);
      continue;
    }
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.path().extension() == ".toml") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    for (const fs::path& file : files) add(file, false);
  }
  if (found.empty()) {
    throw std::runtime_error(
        missing.empty()
            ? fmt::format("--tasks {}: no task files (.toml) there", fmt::join(options.tasks, ","))
            : fmt::format("--tasks: the data of none of {} is there (SSA_DATA)",
                          fmt::join(missing, ", ")));
  }
  return found;
}

/// TASK, number of the item, of the choice, its log-probability, whether the model would write it.
void append_choices(std::string& text, const ChoiceResult& result) {
  for (std::size_t item = 0; item < result.likelihoods.size(); ++item) {
    const auto& of_choices = result.likelihoods[item];
    for (std::size_t choice = 0; choice < of_choices.size(); ++choice) {
      text += fmt::format("{}\t{}\t{}\t{:.9g}\t{:d}\n", result.name, item, choice,
                          of_choices[choice].log_probability, of_choices[choice].greedy);
    }
  }
}

void print_result(const ChoiceResult& result, const Json& rows) {
  const auto mean = [&](std::string_view metric) {
    for (const Json& row : rows) {
      if (row.at("metric") == metric && row.at("predictor") == "model") {
        return fmt::format("{:.2f}", row.at("mean").get<double>());
      }
    }
    return std::string("-");
  };
  const bool greedy = result.greedy;
  std::string remarks = result.constant() ? "  always the same choice" : "";
  for (const ChoiceResult::Answers& answers : result.answers) {
    remarks += fmt::format("  {} {}", answers.metric->name, mean(answers.metric->name));
  }
  print("{:<16} {:>7} {:>6} {:>9} {:>9} {:>11} {:>7} {:>9} {:>7}{}\n", result.name, mean("acc"),
        fmt::format("{:.2f}", rows[0].at("standard_error").get<double>()), mean("acc_norm"),
        mean("acc_bytes"), mean("perplexity"),
        greedy ? "-" : fmt::format("{:.2f}", 100 * result.chance),
        greedy ? "-" : fmt::format("{:.2f}", 100 * result.majority()), result.items, remarks);
  std::fflush(stdout);
}

}  // namespace

void check_choices(const Evaluation& evaluation, Config&) {
  std::vector<std::string> missing;
  find_tasks(evaluation.options.choices, missing);
}

Json evaluate_choices(const Evaluation& evaluation, const Config& config, Model& model) {
  using Clock = std::chrono::steady_clock;
  const ChoiceOptions& options = evaluation.options.choices;
  const LanguageOptions& language = evaluation.options.language;
  const auto tokenizer = read_tokenizer(language, config);
  const EndToken end = find_end_token(*tokenizer, language.end_token);
  const Autocast autocast(language.precision, model.device());
  std::vector<std::string> missing;
  const std::vector<FoundTask> tasks = find_tasks(options, missing);
  Json rows = Json::array(), of_tasks = Json::array();
  std::string choices = "task\titem\tchoice\tlog_probability\tgreedy\n";
  print("\n{:<16} {:>7} {:>6} {:>9} {:>9} {:>11} {:>7} {:>9} {:>7}\n", "task", "acc", "+-",
        "acc_norm", "acc_bytes", "perplexity", "chance", "majority", "items");
  const auto start = Clock::now();
  for (const FoundTask& one : tasks) {
    std::vector<ChoiceItem> items = read_choice_items(one.task, one.data);
    const auto all = static_cast<std::int64_t>(items.size());
    if (options.items > 0) items.resize(std::min(all, options.items));
    const ChoiceResult result =
        evaluate_choices(model, *tokenizer, end.id, config.model.max_positions, one.task, items,
                         [&](std::int64_t done, std::int64_t number) {
                           redraw(fmt::format("{}: {} of {}", one.task.name, done, number));
                         });
    redraw("");
    const Json own = to_json(result);
    print_result(result, own);
    append_choices(choices, result);
    rows.insert(rows.end(), own.begin(), own.end());
    of_tasks.push_back({{"task", one.task.name},
                        {"file", one.data.string()},
                        {"hash", hash_files({one.data})},
                        {"items", result.items},
                        {"items_of_file", all},
                        {"predictions", result.predictions},
                        {"labels", result.labels},
                        {"constant", result.constant()}});
  }
  const std::chrono::duration<double> seconds = Clock::now() - start;
  print("{} in {:.1f} s\n", counted(tasks.size(), "task"), seconds.count());
  if (!missing.empty()) {
    ssa::print("Left out, as their data is not there: {}\n", fmt::join(missing, ", "));
  }
  if (!options.choices.empty()) write_file(options.choices, choices);
  std::vector<fs::path> files;
  for (const FoundTask& one : tasks) files.push_back(one.data);
  return {{"data", hash_files(files)},
          {"begin", end.token},
          {"precision", language.precision},
          {"special_tokens", language.special_tokens},
          {"seconds", seconds.count()},
          {"missing", missing},
          {"tasks", of_tasks},
          {"rows", rows}};
}

}  // namespace ssa
