// `ssa import`: a checkpoint folder of Hugging Face as a run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "cli/checks.h"
#include "cli/command.h"
#include "cli/device_flag.h"
#include "config/counted.h"
#include "eval/softmax_match.h"
#include "files/data_file.h"
#include "files/durable_files.h"
#include "files/terminal.h"
#include "model/hugging_face/architecture.h"
#include "model/hugging_face/weights.h"
#include "model/softmax_limit.h"
#include "run/failure.h"
#include "run/run_folder.h"
#include "run/safetensors.h"
#include "tasks/task_tokenizer.h"
#include "text/text_documents.h"
#include "train/checkpoint.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

/// Tokens that --match reads at a time.
constexpr std::int64_t kMatchLength = 256;

struct ImportArguments {
  fs::path checkpoint, out;
  std::string tokenizer, merges, score, device = "cpu";
  bool match = false;
  double strength = 0;
  std::vector<std::string> texts;  ///< that --match measures on; empty: by rule
  std::int64_t match_tokens = 2048;
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
    model.score_initial =
        match_softmax(arguments.score, kRuleSize, arguments.strength, model.parametrisation);
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
  settings.push_back({"train", "device", arguments.device, "--device"});
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

/// Sequences from the beginning of each file, together as many tokens as asked for.
TokenTexts read_texts(const ImportArguments& arguments, const Config& config) {
  if (config.task.tokenizer.empty()) {
    throw std::invalid_argument("--texts: needs the checkpoint's tokenizer, or --tokenizer");
  }
  const auto tokenizer = read_task_tokenizer(config);
  const auto longest = static_cast<std::size_t>(std::min(kMatchLength, config.model.max_positions));
  const auto most = static_cast<std::size_t>(arguments.match_tokens);
  TokenTexts texts;
  for (std::size_t i = 0; i < arguments.texts.size(); ++i) {
    const std::size_t until = most * (i + 1) / arguments.texts.size();
    std::size_t tokens = most * i / arguments.texts.size();
    struct Enough {};
    try {
      for_each_document(find_data(arguments.texts[i], "--texts"), {}, [&](std::string_view text) {
        // Encoders read what stands around a text too.
        const auto ids =
            config.model.causal ? tokenizer->encode_ordinary(text) : tokenizer->encode(text);
        for (std::size_t first = 0; first < ids.size(); first += longest) {
          const std::size_t size = std::min({longest, ids.size() - first, until - tokens});
          if (size < 2) break;
          const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(first);
          texts.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(size));
          tokens += size;
        }
        if (tokens + 2 > until) throw Enough();
      });
    } catch (const Enough&) {
    }
  }
  if (texts.empty()) throw std::runtime_error("--texts: has no text of at least 2 tokens");
  return texts;
}

/// What --match made of texts, for people and as match.json.
struct MatchReport {
  TextMeasure before;
  std::vector<MatchedLayer> layers;
};

/// Measures the checkpoint as the softmax model that it is.
MatchReport measure_softmax(const ImportArguments& arguments, const Config& config,
                            const std::vector<ForeignFile>& files, const TokenTexts& texts) {
  ModelConfig softmax = config.model;
  softmax.score = "softmax";
  softmax.score_initial.clear();
  const auto model = make_model(softmax, 0);
  load_foreign_weights(files, *model, ScoreWeights::of_files);
  MatchReport report{.before = measure_texts(*model, texts), .layers = {}};
  report.layers = match_on_texts(*model, texts, config.model.score, arguments.strength,
                                 config.model.parametrisation);
  return report;
}

/// Shows the match and returns it for match.json. `model` is the converted one.
Json tell_match(const ImportArguments& arguments, const Config& config, const TokenTexts& texts,
                const MatchReport& report, Model& model) {
  const auto& params = find_score(config.model.score).params;
  std::string names;
  for (const ParamInfo& param : params) names += fmt::format(" {:>12}", param.name);
  print("{:>5} {:>5} {:>10}{} {:>10}\n", "layer", "head", "size", names, "moved");
  Json layers = Json::array();
  for (std::size_t number = 0; number < report.layers.size(); ++number) {
    const MatchedLayer& layer = report.layers[number];
    Json values = Json::object();
    for (std::size_t i = 0; i < params.size(); ++i) {
      values[std::string(params[i].name)] = layer.values[i];
    }
    layers.push_back({{"sizes", layer.sizes}, {"values", values}, {"moved", layer.moved}});
    for (std::size_t head = 0; head < layer.moved.size(); ++head) {
      const std::size_t of = layer.sizes.size() == 1 ? 0 : head;
      std::string shown;
      for (const auto& value : layer.values) shown += fmt::format(" {:>12.6g}", value[of]);
      print("{:>5} {:>5} {:>10.4g}{} {:>10.3g}\n", number, head, layer.sizes[of], shown,
            layer.moved[head]);
    }
  }
  std::size_t tokens = 0;
  for (const auto& text : texts) tokens += text.size();
  const TextMeasure after = measure_texts(model, texts);
  const bool decoder = config.model.causal;
  const char* measure = decoder ? "perplexity" : "embedding similarity";
  const double first = decoder ? report.before.perplexity : 1.0;
  const double second = decoder ? after.perplexity : similarity(report.before, after);
  print("{} on {} of {}: {:.6g} before, {:.6g} after\n", measure, counted(texts.size(), "sequence"),
        counted(tokens, "token"), first, second);
  return {{"schema", 1},
          {"score", config.model.score},
          {"strength", arguments.strength},
          {"texts", arguments.texts},
          {"sequences", texts.size()},
          {"tokens", tokens},
          {"measure", measure},
          {"before", first},
          {"after", second},
          {"layers", layers}};
}

void import_checkpoint(const ImportArguments& arguments) {
  const Config config = config_of(arguments);
  Json data = Json::object();
  if (!config.task.tokenizer.empty()) {
    check_tokenizer(config, arguments);
    data["task.tokenizer"] = hash_tokenizer(config.task);
  }
  const TokenTexts texts = arguments.texts.empty() ? TokenTexts() : read_texts(arguments, config);
  const std::vector<ForeignFile> files = read_weights(arguments.checkpoint);
  MatchReport report;
  if (!texts.empty()) report = measure_softmax(arguments, config, files, texts);
  const auto model = make_model(config.model, static_cast<std::uint64_t>(config.train.seed));
  const std::vector<std::string> unused = load_foreign_weights(
      files, *model, arguments.score.empty() ? ScoreWeights::of_files : ScoreWeights::of_model);
  for (std::size_t layer = 0; layer < report.layers.size(); ++layer) {
    model->set_score_parameters(layer, report.layers[layer].values);
  }
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
  if (!texts.empty()) {
    write_json(run.folder / "match.json", tell_match(arguments, config, texts, report, *model));
  } else if (!config.model.score_initial.empty()) {
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
                 "differs for the largest score; 0 = as near as float32 allows")
      ->needs(match)
      ->check(number(0, 1e6));
  CLI::Option* texts =
      app.add_option(
             "--texts", arguments->texts,
             "text files that --match measures on: each head gets the values for the scores "
             "that it meets there, and what moves is shown and written to RUN/match.json "
             "(default: by rule, as for scores of 16)")
          ->needs(match)
          ->delimiter(',');
  app.add_option("--match-tokens", arguments->match_tokens, "tokens of the texts that are read")
      ->needs(texts)
      ->check(whole_number(2, 1 << 24))
      ->capture_default_str();
  add_device(app, arguments->device, "that `ssa train --resume` trains it on");
  app.footer(
      "The run is one of task lm or mlm that has done no step; `ssa eval` and `ssa generate` take\n"
      "it, and `ssa train --resume --out RUN` trains it on.\n"
      "Example: ssa import gpt2 --out runs/gpt2 && ssa eval runs/gpt2 --suite zero-shot\n"
      "Example: ssa import SmolLM2-135M --out runs/smol --score ssa --match --texts books.txt");
  app.callback([arguments] {
    with_memory_for(arguments->checkpoint.string(),
                    arguments->texts.empty() ? "a smaller model takes less"
                                             : "less takes: no --texts, a smaller model",
                    [&] { import_checkpoint(*arguments); });
  });
}

}  // namespace ssa
