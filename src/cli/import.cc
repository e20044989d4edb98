// `ssa import`: a checkpoint folder of Hugging Face as a run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "cli/checks.h"
#include "cli/command.h"
#include "files/durable_files.h"
#include "files/terminal.h"
#include "model/hugging_face/architecture.h"
#include "model/hugging_face/weights.h"
#include "model/softmax_limit.h"
#include "run/run_folder.h"
#include "run/safetensors.h"
#include "tasks/task_tokenizer.h"
#include "train/checkpoint.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

struct ImportArguments {
  fs::path checkpoint, out;
  std::string tokenizer, merges, score;
  bool match = false;
  double strength = 0;
};

/// Another score than the checkpoint's, whose parameters begin where it computes what softmax did.
void convert(ModelConfig& model, const ImportArguments& arguments) {
  if (arguments.score.empty()) {
    if (arguments.match) throw std::invalid_argument("--match needs --score");
    return;
  }
  if (model.score != "softmax") {
    throw std::invalid_argument(
        fmt::format("--score {}: the checkpoint's score is {}, and only softmax can become another",
                    arguments.score, model.score));
  }
  if (arguments.score == "softmax") return;
  model.score = arguments.score;
  if (arguments.match) {
    model.score_initial = match_softmax(arguments.score, arguments.strength, model.parametrisation);
  }
}

/// The config of a run that goes on from there: what the checkpoint cannot say are its defaults.
Config config_of(const ImportArguments& arguments) {
  const fs::path file = arguments.checkpoint / "config.json";
  if (!fs::is_regular_file(file)) {
    throw std::runtime_error(
        fmt::format("{}: is missing: a checkpoint folder of Hugging Face has it", file.string()));
  }
  ModelConfig model = read_hugging_face_config(file, read_json(file));
  convert(model, arguments);
  Settings settings = settings_of({{"model", section_to_json(model)}}, file.string());
  const auto set = [&](const char* key, const std::string& value) {
    if (!value.empty()) settings.push_back({"task", key, value, file.string()});
  };
  const fs::path beside = arguments.checkpoint / "tokenizer.json";
  const bool own = arguments.tokenizer.empty() && fs::is_regular_file(beside);
  set("name", model.causal ? "lm" : "mlm");
  if (arguments.tokenizer != "none") {
    set("tokenizer", own ? fs::absolute(beside).string() : arguments.tokenizer);
  }
  set("merges", arguments.merges);
  return make_config(settings, file.string());
}

/// The files that an index of weights names, each once.
std::vector<fs::path> files_of_index(const fs::path& index) {
  const Json content = read_json(index);
  const auto refuse = [&](const std::string& what) {
    throw std::runtime_error(fmt::format("{}: {}", index.string(), what));
  };
  if (!content.is_object() || !content.contains("weight_map") ||
      !content["weight_map"].is_object() || content["weight_map"].empty()) {
    refuse("has no weight_map of names and files");
  }
  std::set<std::string> names;
  for (const auto& [weight, file] : content["weight_map"].items()) {
    const bool plain = file.is_string() && !file.get<std::string>().empty() &&
                       fs::path(file.get<std::string>()).filename() == file.get<std::string>();
    if (!plain) refuse(fmt::format("weight_map.{} = {} is no file name", weight, file.dump()));
    names.insert(file.get<std::string>());
  }
  std::vector<fs::path> files;
  for (const std::string& name : names) files.push_back(index.parent_path() / name);
  return files;
}

/// model.safetensors, or the files that model.safetensors.index.json names.
std::vector<ForeignFile> read_weights(const fs::path& checkpoint) {
  const fs::path single = checkpoint / "model.safetensors",
                 index = checkpoint / "model.safetensors.index.json";
  const bool sharded = !fs::exists(single) && fs::exists(index);
  std::vector<ForeignFile> files;
  for (const fs::path& file : sharded ? files_of_index(index) : std::vector<fs::path>{single}) {
    files.push_back({file, read_safetensors(file).tensors});
  }
  return files;
}

/// It can be read and fits the model.
void check_tokenizer(const Config& config, const ImportArguments& arguments) {
  try {
    read_task_tokenizer(config);
  } catch (const std::exception& error) {
    if (!arguments.tokenizer.empty()) throw;
    throw std::runtime_error(
        fmt::format("{}; with --tokenizer none the model is imported without it", error.what()));
  }
}

void import_checkpoint(const ImportArguments& arguments) {
  const Config config = config_of(arguments);
  Json data = Json::object();
  if (!config.task.tokenizer.empty()) {
    check_tokenizer(config, arguments);
    data["task.tokenizer"] = hash_tokenizer(config.task);
  }
  const auto model = make_model(config.model, static_cast<std::uint64_t>(config.train.seed));
  const std::vector<std::string> unused = load_foreign_weights(
      read_weights(arguments.checkpoint), *model,
      arguments.score.empty() ? ScoreWeights::of_files : ScoreWeights::of_model);
  const std::int64_t parameters = count_parameters(*model);
  const RunLock lock(arguments.out);
  const Run run = create_run(
      arguments.out, config,
      {.name = run_name(arguments.out), .parameters = parameters, .processes = 1, .data = data});
  try {
    save_checkpoint(run.folder, {}, *model, Optimizer(config.train, *model));
  } catch (...) {  // a run without a checkpoint would be in the way of the next try
    std::error_code ignored;
    for (const char* part : {"run.json", "checkpoints", "evals"}) {
      fs::remove_all(run.folder / part, ignored);
    }
    throw;
  }
  print("{}: {} parameters of {}; tokenizer {}\n", run.folder.string(), parameters,
        arguments.checkpoint.string(),
        config.task.tokenizer.empty() ? "none" : config.task.tokenizer);
  if (!config.model.score_initial.empty()) {
    const auto& params = find_score(config.model.score).params;
    for (std::size_t i = 0; i < params.size(); ++i) {
      print("{}{} = {}", i == 0 ? config.model.score + ": " : ", ", params[i].name,
            config.model.score_initial[i]);
    }
    print("\n");
  }
  if (!unused.empty()) {
    ssa::print("left out, as of heads that the model has not: {}\n", fmt::join(unused, ", "));
  }
}

}  // namespace

void add_import(CLI::App& app, int&) {
  const auto arguments = std::make_shared<ImportArguments>();
  app.add_option(
         "checkpoint", arguments->checkpoint,
         "folder with config.json and model.safetensors (or its parts and their index) of a "
         "GPT-2, Nemotron, Llama, Mistral, Qwen2, Qwen3, RoBERTa or BERT model")
      ->required();
  app.add_option("--out", arguments->out, "run folder to make")->required();
  app.add_option(
      "--tokenizer", arguments->tokenizer,
      "for evaluations and text (default: tokenizer.json beside the weights, if there); none "
      "= without");
  app.add_option("--merges", arguments->merges, "merges.txt, where the tokenizer is a vocab.json");
  app.add_option("--score", arguments->score,
                 "another scoring function than the checkpoint's softmax (ssa scores)")
      ->check(one_of(score_names()));
  CLI::Option* match =
      app.add_flag("--match", arguments->match,
                   "begin with the score's parameters where it computes what softmax did (ssa: n "
                   "large, b = 1/n), instead of its own start");
  app.add_option("--strength", arguments->strength,
                 "how far from softmax --match begins: by how much the logarithm of a weight "
                 "differs for a score of 16; 0 = as near as float32 allows")
      ->needs(match)
      ->check(number(0, 1e6));
  app.footer(
      "The run is one of task lm or mlm that has done no step; `ssa eval` and `ssa generate` take\n"
      "it, and `ssa train --resume --out RUN` trains it on.\n"
      "Example: ssa import gpt2 --out runs/gpt2 && ssa eval runs/gpt2 --suite zero-shot\n"
      "Example: ssa import SmolLM2-135M --out runs/smol --score ssa --match --strength 0.1");
  app.callback([arguments] { import_checkpoint(*arguments); });
}

}  // namespace ssa
