// `ssa eval --suite ppl`: how well a language model predicts texts.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "cli/eval_suite.h"
#include "cli/number.h"
#include "eval/perplexity.h"
#include "files/data_file.h"
#include "files/file_hash.h"
#include "model/autocast.h"
#include "tasks/task_tokenizer.h"
#include "text/text_documents.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

struct PerplexityArguments {
  SharedLanguageArguments language;
  std::vector<std::string> texts;  ///< empty: kDefaultTexts
  DocumentOptions documents;
  std::vector<std::int64_t> lengths;  ///< empty: model.max_positions
  std::int64_t stride = 0;            ///< 0: the length
};

/// The real texts at hand that no config trains on.
const std::vector<std::string> kDefaultTexts = {
    "web_and_books/books_valid.txt", "web_and_books/c4_sample_valid.jsonl",
    "web_and_books/fineweb_edu_sample_valid.txt", "wikipedia/wikipedia_articles_valid.jsonl"};

std::vector<fs::path> files_of(const PerplexityArguments& arguments) {
  std::vector<fs::path> files;
  for (const std::string& name : arguments.texts.empty() ? kDefaultTexts : arguments.texts) {
    files.push_back(find_data(name, "--texts"));
    check_text_file(files.back());
    for (std::size_t i = 0; i + 1 < files.size(); ++i) {
      if (files[i].stem() != files.back().stem()) continue;
      throw std::invalid_argument(
          fmt::format("--texts: {} and {} would have the same name in the results, {}",
                      files[i].string(), files.back().string(), files.back().stem().string()));
    }
  }
  return files;
}

/// One for each length.
std::vector<WindowOptions> windows_of(const PerplexityArguments& arguments, const Config& config) {
  const std::int64_t most = config.model.max_positions;
  std::vector<WindowOptions> all;
  const std::vector<std::int64_t> own = {most};
  for (const std::int64_t length : arguments.lengths.empty() ? own : arguments.lengths) {
    if (std::ranges::find(all, length, &WindowOptions::length) != all.end()) {
      throw std::invalid_argument(fmt::format("--lengths: {} is given twice", length));
    }
    if (length > most && config.model.positions == "learned") {
      throw std::invalid_argument(
          fmt::format("--lengths {}: more than model.max_positions = {}, and positions are learned",
                      length, most));
    }
    if (arguments.stride > length) {
      throw std::invalid_argument(
          fmt::format("--stride {}: more than --lengths {}", arguments.stride, length));
    }
    all.push_back({.length = length, .stride = arguments.stride == 0 ? length : arguments.stride});
  }
  return all;
}

struct MeasuredText {
  TextLikelihood likelihood;
  LeftOut left_out;
};

MeasuredText measure(const PerplexityArguments& arguments, const fs::path& file, Model& model,
                     const Tokenizer& tokenizer, const WindowOptions& windows) {
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  PerplexityMeter meter(model, tokenizer, windows);
  const auto add = [&](std::string_view text) {
    meter.add(text);
    if (terminal) fmt::print(stderr, "\r{} tokens ", meter.so_far().tokens);
  };
  MeasuredText out;
  out.left_out = for_each_document(file, arguments.documents, add);
  if (meter.so_far().documents == 0) {
    throw std::runtime_error(fmt::format("{}: there is no text in it", file.string()));
  }
  out.likelihood = meter.finish();
  if (terminal) fmt::print(stderr, "\r{:20}\r", "");
  return out;
}

Json evaluate(const PerplexityArguments& arguments, const Config& config, Model& model) {
  using Clock = std::chrono::steady_clock;
  const auto tokenizer = arguments.language->read_tokenizer(config);
  const EndToken end = find_end_token(*tokenizer, arguments.language->end_token);
  std::vector<WindowOptions> windows = windows_of(arguments, config);
  const std::vector<fs::path> files = files_of(arguments);
  const Autocast autocast(arguments.language->precision);
  Json rows = Json::array(), texts = Json::array();
  fmt::print("\n{:<32} {:>6} {:>10} {:>8} {:>10} {:>9} {:>9} {:>9} {:>9} {:>7}\n", "text", "length",
             "perplexity", "+-", "rare", "bits/byte", "word ppl", "tokens", "bytes", "docs");
  const auto start = Clock::now();
  for (const fs::path& file : files) {
    const std::string name = file.stem().string();
    for (WindowOptions& one : windows) {
      one.begin = end.id;
      const auto [result, left_out] = measure(arguments, file, model, *tokenizer, one);
      const TextLikelihood::Rare rare = result.rarest_tenth();
      fmt::print("{:<32} {:>6} {:>10.4f} {:>8.4f} {:>10} {:>9.4f} {:>9.2f} {:>9} {:>9} {:>7}\n",
                 name, one.length, result.token_perplexity(), result.standard_error(),
                 rare.tokens > 0 ? fmt::format("{:.2f}", rare.perplexity) : "-",
                 result.bits_per_byte(), result.word_perplexity(), result.tokens, result.bytes,
                 result.documents);
      std::fflush(stdout);
      const bool first = &one == windows.data();
      const std::string label = first ? name : fmt::format("{}@{}", name, one.length);
      for (Json& row : to_json(label, result)) rows.push_back(std::move(row));
      if (!first) continue;
      texts.push_back({{"text", name},
                       {"file", file.string()},
                       {"hash", hash_files({file})},
                       {"documents", result.documents},
                       {"tokens", result.tokens},
                       {"bytes", result.bytes},
                       {"words", result.words},
                       {"left_out", left_out.bad + left_out.empty}});
    }
  }
  const std::chrono::duration<double> seconds = Clock::now() - start;
  fmt::print("{} texts in {:.1f} s\n", files.size(), seconds.count());
  Json lengths = Json::array();
  for (const WindowOptions& one : windows) lengths.push_back(one.length);
  return {{"lengths", lengths},
          {"stride", arguments.stride},
          {"begin", end.token},
          {"precision", arguments.language->precision},
          {"special_tokens", arguments.language->special_tokens},
          {"chance", config.model.vocabulary},
          {"seconds", seconds.count()},
          {"data", hash_files(files)},
          {"texts", texts},
          {"rows", rows}};
}

}  // namespace

std::vector<EvalSuite> perplexity_suites(CLI::App& app, const SharedLanguageArguments& language) {
  const auto arguments = std::make_shared<PerplexityArguments>();
  arguments->language = language;
  CLI::App& group = *app.add_option_group("With --suite ppl");
  group
      .add_option("--texts", arguments->texts,
                  "files as for `ssa data tokenize`; also looked for in the folder SSA_DATA "
                  "(default: books, web samples and Wikipedia articles there)")
      ->delimiter(',');
  group.add_option("--field", arguments->documents.field, "of .jsonl and .parquet: the text")
      ->capture_default_str();
  group
      .add_option("--document-line", arguments->documents.document_line,
                  "of .txt: the line that ends a document")
      ->capture_default_str();
  group.add_flag("--skip-bad-lines", arguments->documents.skip_bad_lines,
                 "leave out and count what is no UTF-8, no JSON or without the field");
  group
      .add_option("--lengths", arguments->lengths,
                  "tokens that the model reads at a time; more than it was trained on with rotary "
                  "positions or none [model.max_positions]")
      ->delimiter(',')
      ->check(whole_number(1, static_cast<std::int64_t>(kMostSize)));
  group
      .add_option("--stride", arguments->stride,
                  "tokens by which it goes on, the others being context; 0 = the length")
      ->check(whole_number(0))
      ->capture_default_str();
  return {{.info = find_suite("ppl"),
           .groups = {&group, language->group},
           .check =
               [arguments](Config& config) {
                 files_of(*arguments);
                 for (const WindowOptions& one : windows_of(*arguments, config)) {
                   config.model.max_positions = std::max(config.model.max_positions, one.length);
                 }
               },
           .evaluate = [arguments](const Config& config,
                                   Model& model) { return evaluate(*arguments, config, model); }}};
}

}  // namespace ssa
