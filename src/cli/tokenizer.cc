// `ssa tokenizer`: text to token ids and back, line by line; training through Python.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/python.h"
#include "config/counted.h"
#include "files/json.h"
#include "files/lines.h"
#include "files/terminal.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/tokenizer.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

struct TokenizerOptions {
  fs::path tokenizer, merges, input;
  bool jsonl = false, no_special = false, keep_special = false, speed = false;

  std::unique_ptr<Tokenizer> read() const { return read_tokenizer(tokenizer, merges); }
};

/// Standard output in large pieces: a line at a time costs more than encoding it.
class Output {
 public:
  void line(std::string_view text) {
    buffer_.append(text).push_back('\n');
    if (buffer_.size() > kPiece) flush();
  }

  void flush() {
    write_output(buffer_);
    buffer_.clear();
  }

 private:
  static constexpr std::size_t kPiece = 1 << 16;
  std::string buffer_;
};

/// The text of a JSON line: a string, or an object's "text".
std::string text_of(std::string_view line) {
  const Json value = parse_json(line);
  const auto& text = value.is_object() && value.contains("text") ? value["text"] : value;
  if (!text.is_string()) {
    throw std::invalid_argument("expected a JSON string, or an object with the string \"text\"");
  }
  return text.get<std::string>();
}

void encode(const TokenizerOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto tokenizer = options.read();
  Output output;
  std::int64_t lines = 0, bytes = 0;
  Clock::duration time{};
  for_each_line(options.input, [&](std::string_view line) {
    const std::string text = options.jsonl ? text_of(line) : std::string(line);
    const auto start = Clock::now();
    const std::vector<TokenId> ids = tokenizer->encode(text, !options.no_special);
    time += Clock::now() - start;
    ++lines;
    bytes += static_cast<std::int64_t>(text.size());
    output.line(fmt::format("{}", fmt::join(ids, " ")));
  });
  output.flush();
  if (options.speed) {
    const double seconds = std::chrono::duration<double>(time).count();
    const double megabytes = static_cast<double>(bytes) / 1e6;
    print_error_text(fmt::format("{}, {:.3f} MB in {:.4f} s: {:.2f} MB/s\n", counted(lines, "text"),
                                 megabytes, seconds, seconds > 0 ? megabytes / seconds : 0.0));
  }
}

std::vector<TokenId> parse_ids(std::string_view line) {
  std::vector<TokenId> ids;
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    if (!word.empty()) {
      TokenId id = 0;
      const char* end = word.data() + word.size();
      const auto [stop, error] = std::from_chars(word.data(), end, id);
      if (error != std::errc() || stop != end) {
        throw std::invalid_argument(fmt::format("\"{}\" is not a token id", word));
      }
      ids.push_back(id);
    }
    line.remove_prefix(std::min(line.size(), word.size() + 1));
  }
  return ids;
}

void decode(const TokenizerOptions& options) {
  const auto tokenizer = options.read();
  Output output;
  for_each_line(options.input, [&](std::string_view line) {
    const std::string text = tokenizer->decode(parse_ids(line), !options.keep_special);
    output.line(options.jsonl ? json_text(text) : text);
  });
  output.flush();
}

/// "<s> (3)"; the vocabulary's spelling, which every id has.
std::string named(const Pipeline& tokenizer, const std::vector<TokenId>& ids) {
  std::vector<std::string> names;
  for (const TokenId id : ids) names.push_back(fmt::format("{} ({})", tokenizer.name(id), id));
  return fmt::format("{}", fmt::join(names, " "));
}

/// The kinds of a part's steps.
std::string steps(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

void row(const char* name, const std::string& value) { print("{:<15} {}\n", name, value); }

void info_of_model(const TokenizerOptions& options) {
  const auto tokenizer = options.read();
  row("model", "SentencePiece");
  row("size", fmt::format("{} (largest id + 1)", tokenizer->size()));
  for (const char* token : {"<unk>", "<s>", "</s>", "<pad>"}) {
    if (const auto id = tokenizer->find(token)) row("token", fmt::format("{} {}", *id, token));
  }
}

void info(const TokenizerOptions& options) {
  if (is_sentence_piece(options.tokenizer)) {
    info_of_model(options);
    return;
  }
  const Pipeline tokenizer = options.merges.empty()
                                 ? Pipeline::read(options.tokenizer)
                                 : Pipeline::read(options.tokenizer, options.merges);
  const PipelineParts& parts = tokenizer.parts();
  const auto& [prefix, suffix] = parts.post_processor;
  row("model",
      fmt::format("{}{}", model_name(parts.model.kind), parts.model.bytes ? ", of bytes" : ""));
  row("size", fmt::format("{} (largest id + 1)", tokenizer.size()));
  if (parts.model.kind == ModelKind::byte_pairs) {
    row("merges", fmt::format("{}", parts.model.merges));
  }
  row("unknown", parts.model.unknown ? named(tokenizer, {*parts.model.unknown}) : "no token");
  row("normalizer", steps(parts.normalizer.names()));
  row("pre-tokenizer", steps(parts.pre_tokenizer.names()));
  row("around a text",
      prefix.empty() && suffix.empty()
          ? "nothing"
          : fmt::format("{} … {}", named(tokenizer, prefix), named(tokenizer, suffix)));
  row("decoder", steps(parts.detokenizer.names()));
  if (parts.max_length) {
    row("truncation", fmt::format("to {} in the file; encode never truncates", *parts.max_length));
  }
  for (const AddedToken& token : parts.added) {
    row("added token",
        fmt::format("{} {}{}{}{}{}{}", token.id, token.content, token.special ? ", special" : "",
                    token.normalized ? ", in the normalised text" : "",
                    token.single_word ? ", as a word of its own" : "",
                    token.lstrip ? ", with white space before it" : "",
                    token.rstrip ? ", with white space after it" : ""));
  }
}

using Work = void (*)(const TokenizerOptions&);

CLI::App& add_work(CLI::App& app, const char* name, const char* help,
                   const std::shared_ptr<TokenizerOptions>& options, Work work) {
  CLI::App& command = *app.add_subcommand(name, help);
  command
      .add_option("tokenizer", options->tokenizer,
                  "tokenizer.json, a .model of SentencePiece, or a vocab.json with --merges")
      ->required();
  command.add_option("--merges", options->merges, "merges.txt of a vocab.json");
  command.callback([options, work] { work(*options); });
  return command;
}

}  // namespace

void add_tokenizer(CLI::App& app, int&) {
  const auto options = std::make_shared<TokenizerOptions>();
  app.require_subcommand(1);
  CLI::App& encoding =
      add_work(app, "encode", "write the token ids of every line of a text", options, encode);
  encoding.add_option("file", options->input, "the text (default: standard input)");
  encoding.add_flag("--jsonl", options->jsonl,
                    "each line is a JSON string, or an object with the string \"text\"");
  encoding.add_flag("--no-special", options->no_special,
                    "without the special tokens that the tokenizer puts around a text");
  encoding.add_flag("--speed", options->speed, "say on standard error how fast encoding was");
  encoding.footer("Example: ssa tokenizer encode tokenizer.json corpus.txt > ids.txt");

  CLI::App& decoding =
      add_work(app, "decode", "write the text of every line of token ids", options, decode);
  decoding.add_option("file", options->input, "lines of ids (default: standard input)");
  decoding.add_flag("--jsonl", options->jsonl, "write each text as a JSON string");
  decoding.add_flag("--keep-special", options->keep_special, "with the special tokens");
  decoding.footer("Example: ssa tokenizer decode tokenizer.json ids.txt");

  CLI::App& training = *app.add_subcommand("train", "make a tokenizer from text, with Python");
  pass_to_python(training, {.module = "ssa_attention.tokenizer_training",
                            .command = "tokenizer train",
                            .needs = "ssa_attention with tokenizers (pip install '.[tokenizer]' in "
                                     "the project's folder)"});

  CLI::App& telling = add_work(app, "info", "show what a tokenizer does", options, info);
  telling.footer("Example: ssa tokenizer info tokenizer.json");

  app.footer("Example: ssa tokenizer encode tokenizer.json corpus.txt > ids.txt");
}

}  // namespace ssa
