// `ssa attention`: the attention weights of trained models for one chosen input.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "cli/checks.h"
#include "cli/command.h"
#include "cli/device_flag.h"
#include "config/counted.h"
#include "eval/attention_map.h"
#include "eval/model_json.h"
#include "files/durable_files.h"
#include "files/lines.h"
#include "files/terminal.h"
#include "model/device.h"
#include "run/failure.h"
#include "run/run_folder.h"
#include "tasks/icl_prompt.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

struct AttentionArguments {
  std::vector<fs::path> runs;
  std::string input;
  fs::path out;
  std::optional<std::int64_t> checkpoint;
  std::string device = "cpu";
};

/// The runs, all of one task.
std::vector<Run> open_runs(const std::vector<fs::path>& folders) {
  std::vector<Run> runs;
  for (const fs::path& folder : folders) {
    const Run& run = runs.emplace_back(open_run(folder));
    const std::string_view task = name_of(run.config.task.name);
    const std::string_view first = name_of(runs.front().config.task.name);
    if (!task.starts_with("icl-")) {
      throw std::invalid_argument(
          fmt::format("{}: was trained on {}: inputs are shown to runs of in-context tasks",
                      folder.string(), task));
    }
    if (task != first) {
      throw std::invalid_argument(
          fmt::format("{}: was trained on {}, but {} on {}: an input is shown to runs of one task",
                      folder.string(), task, runs.front().folder.string(), first));
    }
  }
  return runs;
}

/// --input names a file, else it is the list itself.
IclSequences read_input(const std::string& input, IclTask task) {
  std::error_code ignored;  // a long list is no name that a file could have
  if (fs::is_directory(input, ignored)) {
    throw std::invalid_argument(fmt::format("--input {}: is a folder", input));
  }
  if (fs::exists(input, ignored)) {
    return icl_prompt(task, read_text(input), "--input " + input);
  }
  // One word that is no number was probably meant as a file.
  const bool one_word = !input.empty() && input.find_first_of(", \t\n[") == std::string::npos;
  return icl_prompt(task, input,
                    one_word ? fmt::format("--input {} (no such file)", input) : "--input");
}

void require_fit(const Run& run, std::int64_t points) {
  const std::int64_t tokens = 2 * points, most = run.config.model.max_positions;
  if (tokens <= most) return;
  throw std::invalid_argument(
      fmt::format("--input: {} points are {} tokens, more than max_positions = {} of {}", points,
                  tokens, most, run.folder.string()));
}

void write_maps(const AttentionArguments& arguments) {
  const torch::Device device = find_device("--device", arguments.device);
  const std::vector<Run> runs = open_runs(arguments.runs);
  const TaskName task = runs.front().config.task.name;
  const IclSequences sequence = read_input(arguments.input, icl_task(task));
  for (const Run& run : runs) require_fit(run, sequence.x.size(1));

  Json maps = Json::array();
  for (const Run& run : runs) {
    const std::string name = run.folder.string();
    const LoadedModel loaded =
        with_memory_for(name + ": reading the model", "a smaller model takes less",
                        [&] { return load_model(run, arguments.checkpoint, device); });
    Json map = {{"run", run.folder.string()},
                {"score", run.config.model.score},
                {"seed", run.config.train.seed},
                {"step", loaded.step}};
    try {
      map.update(with_memory_for("attention weights", "less takes: fewer points of --input",
                                 [&] { return attention_map(*loaded.model, sequence); }));
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(fmt::format("{}: {}", name, error.what()));
    }
    maps.push_back(std::move(map));
    print("{}: score {}, step {}: {} of {}\n", run.folder.string(), run.config.model.score,
          loaded.step, counted(run.config.model.layers, "layer"),
          counted(run.config.model.heads, "head"));
    std::fflush(stdout);
  }
  const Json out = {{"schema", 1},
                    {"task", task},
                    {"x", to_json(sequence.x[0])},
                    {"y", to_json(sequence.y[0])},
                    {"runs", std::move(maps)}};
  if (std::error_code error; fs::create_directories(arguments.out, error), error) {
    throw std::runtime_error(fmt::format("--out {}: {}", arguments.out.string(), error.message()));
  }
  const fs::path file = arguments.out / "attention.json";
  // In one line: indented, each of the many weights would stand on a line of its own.
  write_file(file, json_text(out) + "\n");
  print("Weights: {}\nPage: python -m ssa_attention.report.attention {}\n", file.string(),
        arguments.out.string());
}

}  // namespace

void add_attention(CLI::App& app, int&) {
  const auto arguments = std::make_shared<AttentionArguments>();
  app.add_option("RUN", arguments->runs, "run folders of one task, shown side by side")->required();
  app.add_option("--input", arguments->input,
                 "the x of one sequence (y follows from the task's rule) or pairs x:y, separated "
                 "by commas or spaces; or a file of them, text or JSON")
      ->required();
  app.add_option("--out", arguments->out, "folder to write attention.json into")->required();
  app.add_option("--checkpoint", arguments->checkpoint, "step of the checkpoint (default: newest)")
      ->check(whole_number(1));
  add_device(app, arguments->device);
  app.footer(
      "Writes FOLDER/attention.json (docs/formats.md). `python -m ssa_attention.report.attention\n"
      "FOLDER` makes a page of heat maps from it, FOLDER/attention.html.\n"
      "Example: ssa attention runs/softmax runs/ssa --input \"1.5,0.3,100,-0.2\" --out maps");
  app.callback([arguments] { write_maps(*arguments); });
}

}  // namespace ssa
