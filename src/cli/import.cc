// `ssa import`: a checkpoint folder of Hugging Face as a run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "cli/command.h"
#include "files/durable_files.h"
#include "model/hugging_face/config.h"
#include "model/hugging_face/weights.h"
#include "run/run_folder.h"
#include "run/safetensors.h"
#include "tasks/task_tokenizer.h"
#include "train/checkpoint.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

struct ImportArguments {
  fs::path checkpoint, out;
  std::string tokenizer, merges;
};

/// The config of a run that goes on from there: what the checkpoint cannot say are its defaults.
Config config_of(const ImportArguments& arguments) {
  const fs::path file = arguments.checkpoint / "config.json";
  if (!fs::is_regular_file(file)) {
    throw std::runtime_error(
        fmt::format("{}: is missing: a checkpoint folder of Hugging Face has it", file.string()));
  }
  const ModelConfig model = read_hugging_face_config(file, read_json(file));
  Settings settings = settings_of({{"model", section_to_json(model)}}, file.string());
  const auto set = [&](const char* key, const std::string& value) {
    if (!value.empty()) settings.push_back({"task", key, value, file.string()});
  };
  const fs::path beside = arguments.checkpoint / "tokenizer.json";
  const bool own = arguments.tokenizer.empty() && fs::is_regular_file(beside);
  set("name", model.causal ? "lm" : "mlm");
  set("tokenizer", own ? fs::absolute(beside).string() : arguments.tokenizer);
  set("merges", arguments.merges);
  return make_config(settings, file.string());
}

fs::path weights_of(const fs::path& checkpoint) {
  const fs::path file = checkpoint / "model.safetensors",
                 index = checkpoint / "model.safetensors.index.json";
  if (!fs::exists(file) && fs::exists(index)) {
    throw std::runtime_error(
        fmt::format("{}: the weights are in several files, but one, model.safetensors, is needed: "
                    "save_pretrained(folder, max_shard_size=\"100GB\") of transformers writes it",
                    index.string()));
  }
  return file;
}

void import_checkpoint(const ImportArguments& arguments) {
  const fs::path weights = weights_of(arguments.checkpoint);
  const Config config = config_of(arguments);
  Json data = Json::object();
  if (!config.task.tokenizer.empty()) {
    read_task_tokenizer(config);  // it fits the model
    data["task.tokenizer"] = hash_tokenizer(config.task);
  }
  const auto model = make_model(config.model, static_cast<std::uint64_t>(config.train.seed));
  load_foreign_weights(weights, read_safetensors(weights).tensors, *model);
  const std::int64_t parameters = count_parameters(*model);
  const fs::path out = arguments.out.has_filename() ? arguments.out : arguments.out.parent_path();
  const Run run = create_run(out, out.filename().string(), config, parameters, 1, data);
  const Optimizer optimizer(config.train, *model);
  save_checkpoint(run.folder, {}, *model, optimizer);
  fmt::print("{}: {} parameters of {}; tokenizer {}\n", run.folder.string(), parameters,
             weights.string(), config.task.tokenizer.empty() ? "none" : config.task.tokenizer);
}

}  // namespace

void add_import(CLI::App& app, int&) {
  const auto arguments = std::make_shared<ImportArguments>();
  app.add_option("checkpoint", arguments->checkpoint,
                 "folder with config.json and model.safetensors of a GPT2LMHeadModel, "
                 "NemotronForCausalLM or RobertaForMaskedLM")
      ->required();
  app.add_option("--out", arguments->out, "run folder to make")->required();
  app.add_option("--tokenizer", arguments->tokenizer,
                 "for evaluations and text (default: tokenizer.json beside the weights, if there)");
  app.add_option("--merges", arguments->merges, "merges.txt, where the tokenizer is a vocab.json");
  app.footer(
      "The run is one of task lm or mlm that has done no step; `ssa eval` and `ssa generate` take\n"
      "it.\n"
      "Example: ssa import gpt2 --out runs/gpt2 && ssa eval runs/gpt2 --suite zero-shot");
  app.callback([arguments] { import_checkpoint(*arguments); });
}

}  // namespace ssa
