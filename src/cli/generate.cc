// `ssa generate`: text from a trained language model.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/checks.h"
#include "cli/command.h"
#include "cli/device_flag.h"
#include "config/counted.h"
#include "files/json.h"
#include "files/lines.h"
#include "files/terminal.h"
#include "generate/generation.h"
#include "model/autocast.h"
#include "model/device.h"
#include "run/failure.h"
#include "run/run_data.h"
#include "run/run_folder.h"
#include "tasks/task_tokenizer.h"
#include "train/signals.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

struct GenerateArguments {
  fs::path run;
  std::optional<std::int64_t> checkpoint;
  std::string prompt, tokenizer, merges, end_token, precision = "float32", device = "cpu";
  std::optional<fs::path> prompts;
  bool no_cache = false, no_end = false;
  std::int64_t seed = 1, batch = 8;
  GenerationOptions options;
};

std::unique_ptr<Tokenizer> tokenizer_of(const GenerateArguments& arguments, const Run& run) {
  Config config = with_found_data(run.config, run.folder);
  if (arguments.tokenizer.empty()) {
    require_same_data(run, {{"task.tokenizer", hash_tokenizer(config.task)}});
  }
  if (!arguments.tokenizer.empty()) config.task.tokenizer = arguments.tokenizer;
  if (!arguments.merges.empty()) config.task.merges = arguments.merges;
  return read_task_tokenizer(config);
}

struct Prompt {
  std::string text;
  std::vector<TokenId> ids;  ///< at least one
};

/// The one of --prompt, or one a line of --prompts; all are checked before the first is gone on
/// from. Throws std::runtime_error naming file and line of a bad one. `begin` stands for an empty
/// text: the beginning of a document.
std::vector<Prompt> read_prompts(const GenerateArguments& arguments, const Tokenizer& tokenizer,
                                 TokenId begin, std::int64_t max_positions) {
  std::vector<Prompt> prompts;
  const auto add = [&](std::string_view text) {
    std::vector<TokenId> ids = tokenizer.encode_ordinary(text);
    if (ids.empty()) ids = {begin};
    if (std::ssize(ids) > max_positions) {
      throw std::invalid_argument(fmt::format(
          "the prompt has {} tokens, but model.max_positions = {}", ids.size(), max_positions));
    }
    prompts.push_back({std::string(text), std::move(ids)});
  };
  if (!arguments.prompts.has_value()) {
    add(arguments.prompt);
    return prompts;
  }
  const fs::path& file = *arguments.prompts;
  for_each_line(file == "-" ? fs::path() : file, add);
  if (prompts.empty()) {
    throw std::invalid_argument(fmt::format("--prompts {}: is empty", file.string()));
  }
  return prompts;
}

int generate_texts(GenerateArguments arguments) {
  const torch::Device device = find_device("--device", arguments.device);
  const Run run = open_run(arguments.run);
  if (run.config.task.name != TaskName::lm) {
    throw std::invalid_argument(fmt::format("{}: was trained on {}: text comes from runs of lm",
                                            run.folder.string(), name_of(run.config.task.name)));
  }
  const auto tokenizer = tokenizer_of(arguments, run);
  const EndToken end = find_end_token(*tokenizer, arguments.end_token);
  GenerationOptions& options = arguments.options;
  if (!arguments.no_end) options.end = end.id;
  options.cache = !arguments.no_cache;
  options.sampling.seed = static_cast<std::uint64_t>(arguments.seed);
  const bool many = arguments.prompts.has_value();
  const std::vector<Prompt> prompts =
      read_prompts(arguments, *tokenizer, end.id, run.config.model.max_positions);
  const LoadedModel loaded =
      with_memory_for(run.folder.string() + ": reading the model", "a smaller model takes less",
                      [&] { return load_model(run, arguments.checkpoint, device); });

  const StopSignals signals;
  const auto start = std::chrono::steady_clock::now();
  std::int64_t tokens = 0;
  if (!many) write_output(arguments.prompt);
  const auto show = [&](std::size_t, const std::string& piece) {
    if (!many) write_output(piece);
    return signals.received() == 0;
  };
  const auto batch = static_cast<std::size_t>(arguments.batch);
  for (std::size_t first = 0; first < prompts.size() && signals.received() == 0; first += batch) {
    std::vector<std::vector<TokenId>> ids;
    std::size_t longest = 0;
    for (std::size_t i = first; i < std::min(first + batch, prompts.size()); ++i) {
      ids.push_back(prompts[i].ids);
      longest = std::max(longest, prompts[i].ids.size());
    }
    const Autocast autocast(choice_named<Precision>("--precision", arguments.precision), device);
    const std::vector<GeneratedText> texts = with_memory_for(
        fmt::format("{}: going on from {} of at most {}", run.folder.string(),
                    counted(ids.size(), "prompt"), counted(longest, "token")),
        "less takes: a smaller --batch, a shorter prompt, fewer --tokens, --precision bfloat16",
        [&] {
          return generate(*loaded.model, run.config.model, *tokenizer, ids,
                          static_cast<std::int64_t>(first), options, show);
        });
    for (std::size_t i = 0; i < texts.size(); ++i) {
      tokens += texts[i].tokens;
      if (many) {
        const Json row = {{"prompt", prompts[first + i].text},
                          {"text", texts[i].text},
                          {"tokens", texts[i].tokens},
                          {"ending", ending_name(texts[i].ending)}};
        write_output(json_text(row) + "\n");
      } else {
        write_output("\n");
        print_error_text(fmt::format("ended by: {}\n", ending_name(texts[i].ending)));
      }
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  print_error_text(fmt::format("{}: score {}, step {}; {} in {:.1f} s, {:.1f} tokens/s\n",
                               printable_line(run.folder.string()), run.config.model.score,
                               loaded.step, counted(tokens, "token"), seconds.count(),
                               static_cast<double>(tokens) / seconds.count()));
  return signals.received() == 0 ? 0 : 128 + signals.received();
}

}  // namespace

void add_generate(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<GenerateArguments>();
  GenerationOptions& options = arguments->options;
  Sampling& sampling = options.sampling;
  app.add_option("run", arguments->run, "run folder of a language model")->required();
  CLI::Option* prompt = app.add_option("--prompt", arguments->prompt,
                                       "text to go on from (default: the start of a document)");
  app.add_option("--prompts", arguments->prompts,
                 "file of prompts, one a line, - for standard input; writes a JSON line for each")
      ->excludes(prompt);
  app.add_option("--batch", arguments->batch,
                 "prompts of --prompts that are gone on from together; the same texts but for "
                 "rounding, in less time and more memory")
      ->check(whole_number(1))
      ->capture_default_str();
  app.add_option("--tokens", options.most_tokens, "most tokens of a text")
      ->check(whole_number(1))
      ->capture_default_str();
  app.add_option("--temperature", sampling.temperature,
                 "divides the logits; 0 = greedy, always the likeliest token")
      ->check(number(0, 1e6))
      ->capture_default_str();
  app.add_option("--top-k", sampling.top_k, "draw from that many likeliest tokens; 0 = from all")
      ->check(whole_number(0))
      ->capture_default_str();
  app.add_option("--top-p", sampling.top_p,
                 "draw from the likeliest tokens that have this probability together")
      ->check(number(1e-9, 1))
      ->capture_default_str();
  app.add_option("--seed", arguments->seed, "of the draws")
      ->check(whole_number(0))
      ->capture_default_str();
  app.add_option("--stop", options.stop, "text that ends it; may be given more than once")
      ->check([](const std::string& text) {
        return text.empty() ? std::string("an empty text would end every text") : std::string();
      });
  app.add_option("--end-token", arguments->end_token,
                 "token that ends a document (default: <|endoftext|> or </s>)");
  app.add_flag("--no-end", arguments->no_end, "go on after the end of a document");
  app.add_flag("--no-cache", arguments->no_cache,
               "read all tokens anew for each (slow; the same text)");
  app.add_option("--tokenizer", arguments->tokenizer, "instead of the run's task.tokenizer");
  app.add_option("--merges", arguments->merges, "instead of the run's task.merges");
  app.add_option("--precision", arguments->precision, "of matrix products and attention")
      ->check(one_of(choice_names<Precision>()))
      ->capture_default_str();
  app.add_option("--checkpoint", arguments->checkpoint, "step of the checkpoint (default: newest)")
      ->check(whole_number(0));
  add_device(app, arguments->device);
  app.footer(
      "Example: ssa generate runs/books --prompt \"It was a\" --temperature 0.8 --top-p 0.9");
  app.callback([arguments, &exit_code] { exit_code = generate_texts(*arguments); });
}

}  // namespace ssa
