// `ssa eval --suite ppl`: how well a language model predicts texts.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <stdexcept>

#include "cli/checks.h"
#include "cli/eval_suite.h"
#include "config/counted.h"
#include "eval/perplexity.h"
#include "files/data_file.h"
#include "files/file_hash.h"
#include "files/terminal.h"
#include "model/autocast.h"
#include "shards/shards_record.h"
#include "tasks/task_tokenizer.h"
#include "text/text_documents.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

/// The real texts at hand that no config trains on.
const std::vector<std::string> kDefaultTexts = {
    "web_and_books/books_valid.txt", "web_and_books/c4_sample_valid.jsonl",
    "web_and_books/fineweb_edu_sample_valid.txt", "wikipedia/wikipedia_articles_valid.jsonl"};

std::vector<fs::path> files_of(const PerplexityOptions& options) {
  std::vector<fs::path> files;
  for (const std::string& name : options.texts.empty() ? kDefaultTexts : options.texts) {
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
std::vector<WindowOptions> windows_of(const PerplexityOptions& options, const Config& config) {
  const std::int64_t most = config.model.max_positions;
  std::vector<WindowOptions> all;
  const std::vector<std::int64_t> own = {most};
  for (const std::int64_t length : options.lengths.empty() ? own : options.lengths) {
    if (std::ranges::find(all, length, &WindowOptions::length) != all.end()) {
      throw std::invalid_argument(fmt::format("--lengths: {} is given twice", length));
    }
    if (length > most && config.model.positions == Positions::learned) {
      throw std::invalid_argument(
          fmt::format("--lengths {}: more than model.max_positions = {}, and positions are learned",
                      length, most));
    }
    if (options.stride > length) {
      throw std::invalid_argument(
          fmt::format("--stride {}: more than --lengths {}", options.stride, length));
    }
    all.push_back({.length = length, .stride = options.stride == 0 ? length : options.stride});
  }
  return all;
}

/// Prefixes of the run's training tokens by the hash of each text that is in them; of those that
/// are still there and have a record.
std::map<std::string, std::string> training_texts(const Config& config) {
  std::map<std::string, std::string> found;
  for (const std::string& name : config.task.tokens) {
    try {
      const fs::path index = find_data(name + ".idx", "task.tokens");
      for (const auto& [hash, file] : texts_by_hash(index.parent_path() / index.stem())) {
        found.emplace(hash, name);
      }
    } catch (const std::runtime_error&) {  // they are not needed here
    }
  }
  return found;
}

struct MeasuredText {
  TextLikelihood likelihood;
  LeftOut left_out;
};

MeasuredText measure(const PerplexityOptions& options, const fs::path& file, Model& model,
                     const Tokenizer& tokenizer, const WindowOptions& windows) {
  PerplexityMeter meter(model, tokenizer, windows);
  const auto add = [&](std::string_view text) {
    meter.add(text);
    redraw(counted(meter.so_far().tokens, "token"));
  };
  MeasuredText out;
  out.left_out = for_each_document(file, options.documents(), add);
  if (meter.so_far().documents == 0) {
    throw std::runtime_error(fmt::format("{}: there is no text in it", file.string()));
  }
  out.likelihood = meter.finish();
  redraw("");
  return out;
}

/// What the file of results says of a text.
Json record_of(const fs::path& file, const std::string& hash, const TextLikelihood& result,
               const LeftOut& left_out) {
  return {{"text", file.stem().string()},
          {"file", file.string()},
          {"hash", hash},
          {"documents", result.documents},
          {"tokens", result.tokens},
          {"bytes", result.bytes},
          {"words", result.words},
          {"left_out", left_out.bad + left_out.empty}};
}

}  // namespace

void check_perplexity(const Evaluation& evaluation, Config& config) {
  const PerplexityOptions& options = evaluation.options.perplexity;
  files_of(options);
  for (const WindowOptions& one : windows_of(options, config)) {
    config.model.max_positions = std::max(config.model.max_positions, one.length);
  }
}

Json evaluate_perplexity(const Evaluation& evaluation, const Config& config, Model& model) {
  using Clock = std::chrono::steady_clock;
  const PerplexityOptions& options = evaluation.options.perplexity;
  const LanguageOptions& language = evaluation.options.language;
  const auto tokenizer = read_tokenizer(language, config);
  const EndToken end = find_end_token(*tokenizer, language.end_token);
  std::vector<WindowOptions> windows = windows_of(options, config);
  const std::vector<fs::path> files = files_of(options);
  const Autocast autocast(language.precision, model.device());
  Json rows = Json::array(), texts = Json::array(), warnings = Json::array();
  const std::map<std::string, std::string> trained_on = training_texts(config);
  print("\n{:<32} {:>6} {:>10} {:>8} {:>10} {:>9} {:>9} {:>9} {:>9} {:>7}\n", "text", "length",
        "perplexity", "+-", "rare", "bits/byte", "word ppl", "tokens", "bytes", "docs");
  const auto start = Clock::now();
  for (const fs::path& file : files) {
    const std::string name = file.stem().string();
    for (WindowOptions& one : windows) {
      one.begin = end.id;
      const auto [result, left_out] = measure(options, file, model, *tokenizer, one);
      const TextLikelihood::Rare rare = result.rarest_tenth();
      print("{:<32} {:>6} {:>10.4f} {:>8.4f} {:>10} {:>9.4f} {:>9.2f} {:>9} {:>9} {:>7}\n", name,
            one.length, result.token_perplexity(), result.standard_error(),
            rare.tokens > 0 ? fmt::format("{:.2f}", rare.perplexity) : "-", result.bits_per_byte(),
            result.word_perplexity(), result.tokens, result.bytes, result.documents);
      std::fflush(stdout);
      const bool first = &one == windows.data();
      const std::string label = first ? name : fmt::format("{}@{}", name, one.length);
      for (Json& row : to_json(label, result)) rows.push_back(std::move(row));
      if (!first) continue;
      const std::string hash = hash_files({file});
      if (const auto tokens = trained_on.find(hash); tokens != trained_on.end()) {
        warnings.push_back(fmt::format("{}: the model was trained on it (it is in {})",
                                       file.string(), tokens->second));
      }
      texts.push_back(record_of(file, hash, result, left_out));
    }
  }
  const std::chrono::duration<double> seconds = Clock::now() - start;
  print("{} in {:.1f} s\n", counted(files.size(), "text"), seconds.count());
  for (const Json& warning : warnings) warn("warning: " + warning.get<std::string>());
  Json lengths = Json::array();
  for (const WindowOptions& one : windows) lengths.push_back(one.length);
  return {{"lengths", lengths},
          {"stride", options.stride},
          {"begin", end.token},
          {"precision", language.precision},
          {"special_tokens", language.special_tokens},
          {"chance", config.model.vocabulary},
          {"seconds", seconds.count()},
          {"data", hash_files(files)},
          {"texts", texts},
          {"warnings", warnings},
          {"rows", rows}};
}

}  // namespace ssa
