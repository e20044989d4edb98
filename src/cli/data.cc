// `ssa data`: text files to token shards, and what shards hold.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "cli/checks.h"
#include "cli/command.h"
#include "cli/python.h"
#include "config/counted.h"
#include "config/field.h"
#include "files/durable_files.h"
#include "files/terminal.h"
#include "shards/shards_record.h"
#include "shards/token_shards.h"
#include "shards/tokenize_files.h"
#include "train/signals.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string sizes_of(const Json& side) {
  return fmt::format("{}, {}", counted(side.at("documents").get<std::int64_t>(), "document"),
                     counted(side.at("tokens").get<std::int64_t>(), "token"));
}

/// How far it is: a line that is drawn again on a terminal, a line now and then elsewhere.
class ProgressLine {
 public:
  void show(const TokenizeProgress& done, std::size_t files) {
    const double seconds = seconds_since(start_);
    if (seconds < next_) return;
    next_ = seconds + (terminal_ ? 0.1 : 60);
    const double megabytes = static_cast<double>(done.text_bytes) / 1e6;
    const std::string line = fmt::format(
        "{:.1f} MB of text, {:.2f} MB/s, {:.1f} M tokens, {} of {}", megabytes, megabytes / seconds,
        static_cast<double>(done.tokens) / 1e6, done.files, counted(files, "file"));
    terminal_ ? redraw(line) : print_error_text(line + "\n");
  }
  void clear() const { redraw(""); }
  double seconds() const { return seconds_since(start_); }

 private:
  const bool terminal_ = can_redraw(STDERR_FILENO);
  const Clock::time_point start_ = Clock::now();
  double next_ = terminal_ ? 0.1 : 60;
};

/// What of each file was left out.
void show_left_out(const Json& inputs) {
  for (const Json& input : inputs) {
    const auto bad = input.at("bad").get<std::int64_t>();
    const auto empty = input.at("empty").get<std::int64_t>();
    if (bad + empty == 0) continue;
    print("{}: left out {} and {}\n", input.at("file").get<std::string>(), counted(bad, "bad line"),
          counted(empty, "empty document"));
  }
}

/// A share of few documents may be none or all of them; training or validation would fail later.
void warn_of_empty_side(const Json& record) {
  const auto documents = [&](const char* side) {
    return record.at(side).at("documents").get<std::int64_t>();
  };
  for (const auto& [side, what] :
       {std::pair{"held_out", "held out"}, {"training", "left to train on"}}) {
    if (documents(side) > 0) continue;
    warn(fmt::format(
        "warning: no document was {}: there is {} in all. A .txt is one document unless "
        "lines <|endoftext|> separate documents",
        what, counted(documents("held_out") + documents("training"), "document")));
  }
}

/// The exit code.
int tokenize(const TokenizeOptions& options) {
  const StopSignals signals;
  ProgressLine line;
  TokenizeProgress done;
  const bool finished = tokenize_files(options, [&](const TokenizeProgress& progress) {
    done = progress;
    line.show(done, options.files.size());
    return signals.received() == 0;
  });
  line.clear();
  if (!finished) {
    print("stopped; the same command goes on: finished files are kept in {}.parts\n",
          options.out.string());
    return 128 + signals.received();
  }
  const double seconds = line.seconds();
  const double megabytes = static_cast<double>(done.text_bytes) / 1e6;
  const Json record = read_shards_record(options.out);
  show_left_out(record.at("inputs"));
  const Json& held_out = record.at("held_out");
  print("{}: {}; held out: {}; {} of {} read, {:.1f} MB of text in {:.1f} s, {:.2f} MB/s\n",
        options.out.string(), sizes_of(record.at("training")),
        held_out.is_null() ? "nothing" : sizes_of(held_out), done.files,
        counted(options.files.size(), "file"), megabytes, seconds, megabytes / seconds);
  if (!held_out.is_null()) warn_of_empty_side(record);
  return 0;
}

void info(const fs::path& prefix) {
  const auto row = [](const char* name, const std::string& value) {
    print("{:<13} {}\n", name, value);
  };
  const auto show = [&row](const fs::path& shards_prefix) {
    const TokenShards shards(shards_prefix);
    row("shards", shards_prefix.string());
    row("documents", fmt::format("{}", shards.documents()));
    row("tokens", fmt::format("{}", shards.tokens()));
    row("type", type_name(shards.type()));
  };
  show(prefix);
  const Json record = read_shards_record(prefix);
  if (record.is_null()) return;
  if (!record.at("held_out").is_null()) show(held_out_prefix(prefix));
  const Json& recipe = record.at("recipe");
  row("tokenizer", fmt::format("{}, {}", record.at("tokenizer").get<std::string>(),
                               recipe.at("tokenizer").get<std::string>()));
  row("vocabulary", recipe.at("vocabulary").dump());
  row("end token", fmt::format("{} ({})", recipe.at("end_token").at("token").get<std::string>(),
                               recipe.at("end_token").at("id").dump()));
  for (const Json& input : record.at("inputs")) {
    row("file", fmt::format("{}, {}", input.at("file").get<std::string>(),
                            input.at("hash").get<std::string>()));
  }
}

}  // namespace

void add_data(CLI::App& app, int& exit_code) {
  app.require_subcommand(1);
  CLI::App& command = *app.add_subcommand(
      "tokenize", "turn .txt, .jsonl and .parquet (also .gz, .zst) into token shards");
  const auto options = std::make_shared<TokenizeOptions>();
  options->workers = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  command.add_option("files", options->files, "the text")->required();
  command
      .add_option("--tokenizer", options->tokenizer,
                  "tokenizer.json, a .model of SentencePiece, or a vocab.json with --merges")
      ->required();
  command.add_option("--merges", options->merges, "merges.txt of a vocab.json");
  command
      .add_option("--out", options->out,
                  "PREFIX: writes PREFIX.bin, .idx and .json, and PREFIX-held-out.bin and .idx")
      ->required();
  command
      .add_option("--field", options->documents.field,
                  "of .jsonl and .parquet: what holds the text")
      ->capture_default_str();
  command
      .add_option("--document-line", options->documents.document_line,
                  "of .txt: the line that ends a document")
      ->capture_default_str();
  command.add_option("--end-token", options->end_token,
                     "stands behind each document (default: <|endoftext|>, else </s>)");
  command
      .add_option("--held-out", options->held_out,
                  "share of the documents for PREFIX-held-out, chosen by a hash of their text")
      ->check(share())
      ->capture_default_str();
  command.add_option("--workers", options->workers, "files at a time (default: one a core)")
      ->check(whole_number(1, 1024));
  command.add_flag("--skip-bad-lines", options->documents.skip_bad_lines,
                   "leave out and count what is no text, instead of stopping");
  command.add_flag("--force", options->force,
                   "replace shards that were made from other files or options");
  command.footer("Example: ssa data tokenize books.txt.gz --tokenizer tokenizer.json --out books");
  command.callback([options, &exit_code] { exit_code = tokenize(*options); });

  CLI::App& telling = *app.add_subcommand("info", "show what token shards hold");
  const auto prefix = std::make_shared<fs::path>();
  telling.add_option("prefix", *prefix, "the PREFIX of their files")->required();
  telling.footer("Example: ssa data info books");
  telling.callback([prefix] { info(*prefix); });

  CLI::App& fetching =
      *app.add_subcommand("fetch", "fetch public data sets, resumed and verified, with Python");
  pass_to_python(fetching, {.module = "ssa_attention.data.fetch",
                            .command = "data fetch",
                            .needs = "the package ssa_attention"});

  app.footer("Example: ssa data tokenize books.txt.gz --tokenizer tokenizer.json --out books");
}

}  // namespace ssa
