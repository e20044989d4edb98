// `ssa eval --suite zero-shot`: what a language model makes of multiple-choice tasks.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "cli/eval_suite.h"
#include "cli/number.h"
#include "eval/choice_task.h"
#include "files/data_file.h"
#include "files/durable_files.h"
#include "files/file_hash.h"
#include "model/autocast.h"
#include "tasks/task_tokenizer.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

struct ChoiceArguments {
  SharedLanguageArguments language;
  std::vector<std::string> tasks = {"configs/zero-shot"};
  std::int64_t most_items = 0;
  fs::path choices;
};

struct FoundTask {
  ChoiceTask task;
  fs::path data;
};

/// The tasks whose data is there. Of a folder the others are left out and named; a file that was
/// asked for must have its data.
std::vector<FoundTask> find_tasks(const ChoiceArguments& arguments,
                                  std::vector<std::string>& missing) {
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
  for (const std::string& path : arguments.tasks) {
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
        missing.empty() ? fmt::format("--tasks {}: no task files (.toml) there",
                                      fmt::join(arguments.tasks, ","))
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
  fmt::print("{:<16} {:>7} {:>6} {:>9} {:>9} {:>11} {:>7} {:>9} {:>7}{}\n", result.name,
             mean("acc"), fmt::format("{:.2f}", rows[0].at("standard_error").get<double>()),
             mean("acc_norm"), mean("acc_bytes"), mean("perplexity"),
             greedy ? "-" : fmt::format("{:.2f}", 100 * result.chance),
             greedy ? "-" : fmt::format("{:.2f}", 100 * result.majority()), result.items, remarks);
  std::fflush(stdout);
}

Json evaluate(const ChoiceArguments& arguments, const Config& config, Model& model) {
  using Clock = std::chrono::steady_clock;
  const auto tokenizer = arguments.language->read_tokenizer(config);
  const EndToken end = find_end_token(*tokenizer, arguments.language->end_token);
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  const Autocast autocast(arguments.language->precision);
  std::vector<std::string> missing;
  const std::vector<FoundTask> tasks = find_tasks(arguments, missing);
  Json rows = Json::array(), of_tasks = Json::array();
  std::string choices = "task\titem\tchoice\tlog_probability\tgreedy\n";
  fmt::print("\n{:<16} {:>7} {:>6} {:>9} {:>9} {:>11} {:>7} {:>9} {:>7}\n", "task", "acc", "+-",
             "acc_norm", "acc_bytes", "perplexity", "chance", "majority", "items");
  const auto start = Clock::now();
  for (const FoundTask& one : tasks) {
    std::vector<ChoiceItem> items = read_choice_items(one.task, one.data);
    const auto all = static_cast<std::int64_t>(items.size());
    if (arguments.most_items > 0) items.resize(std::min(all, arguments.most_items));
    const ChoiceResult result =
        evaluate_choices(model, *tokenizer, end.id, config.model.max_positions, one.task, items,
                         [&](std::int64_t done, std::int64_t number) {
                           if (terminal)
                             fmt::print(stderr, "\r{}: {} of {} ", one.task.name, done, number);
                         });
    if (terminal) fmt::print(stderr, "\r{:60}\r", "");
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
  fmt::print("{} tasks in {:.1f} s\n", tasks.size(), seconds.count());
  if (!missing.empty()) {
    fmt::print("Left out, as their data is not there: {}\n", fmt::join(missing, ", "));
  }
  if (!arguments.choices.empty()) write_file(arguments.choices, choices);
  std::vector<fs::path> files;
  for (const FoundTask& one : tasks) files.push_back(one.data);
  return {{"data", hash_files(files)},
          {"begin", end.token},
          {"precision", arguments.language->precision},
          {"special_tokens", arguments.language->special_tokens},
          {"seconds", seconds.count()},
          {"missing", missing},
          {"tasks", of_tasks},
          {"rows", rows}};
}

}  // namespace

std::vector<EvalSuite> zero_shot_suites(CLI::App& app, const SharedLanguageArguments& language) {
  const auto arguments = std::make_shared<ChoiceArguments>();
  arguments->language = language;
  CLI::App& group = *app.add_option_group("With --suite zero-shot");
  group
      .add_option("--tasks", arguments->tasks,
                  "task files, or folders of them, of which those are run whose data is there "
                  "[configs/zero-shot]")
      ->delimiter(',');
  group.add_option("--items", arguments->most_items, "first items of each task; 0 = all")
      ->check(whole_number(0))
      ->capture_default_str();
  group.add_option("--choices", arguments->choices,
                   "file for the log-probability of every choice, tab-separated");
  return {{.info = find_suite("zero-shot"),
           .groups = {&group, language->group},
           .check =
               [arguments](Config&) {
                 std::vector<std::string> missing;
                 find_tasks(*arguments, missing);
               },
           .evaluate = [arguments](const Config& config,
                                   Model& model) { return evaluate(*arguments, config, model); }}};
}

}  // namespace ssa
