// `ssa eval --suite zorro`, `zorro-mlm`, `blimp-mlm` and `blimp`: what a language model makes of
// minimal pairs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "cli/eval_suite.h"
#include "config/counted.h"
#include "eval/minimal_pairs.h"
#include "files/data_file.h"
#include "files/durable_files.h"
#include "files/file_hash.h"
#include "files/terminal.h"
#include "model/autocast.h"
#include "tasks/task_tokenizer.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

struct PairSuite {
  const SuiteInfo* info;
  std::vector<Paradigm> (*read)(const fs::path& folder);
  std::optional<SentenceScore> score;  ///< of masked models; none: a decoder's log-likelihood
  const char* scoring;                 ///< its name in evals/NAME.json
  const char* reference;  ///< column scoring_method of the published values; null: there are none
};

constexpr PairSuite kPairSuites[] = {
    {find_suite("zorro"), read_zorro, SentenceScore::holistic, "holistic", "holistic"},
    {find_suite("zorro-mlm"), read_zorro, SentenceScore::pseudo_log_likelihood,
     "pseudo-log-likelihood", "mlm"},
    {find_suite("blimp-mlm"), read_blimp, SentenceScore::pseudo_log_likelihood,
     "pseudo-log-likelihood", nullptr},
    {find_suite("blimp"), read_blimp, std::nullopt, "log-likelihood", nullptr},
};

const PairSuite& pair_suite(const Evaluation& evaluation) {
  return *std::ranges::find(kPairSuites, evaluation.suite, &PairSuite::info);
}

std::vector<ParadigmResult> results_of(const LanguageOptions& options, const PairSuite& suite,
                                       const Config& config, Model& model,
                                       const std::vector<Paradigm>& paradigms) {
  const auto report = [](std::int64_t done, std::int64_t all) {
    redraw(done == all ? "" : fmt::format("{} of {}", done, counted(all, "sentence")));
  };
  const Autocast autocast(options.precision, model.device());
  const std::int64_t longest = config.model.max_positions;
  const double rounding = rounding_of(options.precision);
  if (suite.score) {
    const auto tokenizer = read_tokenizer(find_data(config.task.tokenizer, "task.tokenizer"));
    return evaluate_minimal_pairs(model, *tokenizer, longest, paradigms, *suite.score, rounding,
                                  report);
  }
  const auto tokenizer = read_tokenizer(options, config);
  const EndToken end = find_end_token(*tokenizer, options.end_token);
  return evaluate_minimal_pairs(model, *tokenizer, end.id, longest, paradigms, rounding, report);
}

fs::path folder_of(const Evaluation& evaluation) {
  const std::string& given = evaluation.options.pairs.data;
  return find_data(given.empty() ? evaluation.suite->data : given, "--data");
}

/// What others published (reference_accuracy_mean.csv beside the sentences, where there is one):
/// accuracy by paradigm of BabyBERTa trained on the whole of AO-CHILDES.
std::map<std::string, double> published(const fs::path& folder, const PairSuite& suite) {
  std::map<std::string, double> values;
  const fs::path file = folder / ".." / "reference_accuracy_mean.csv";
  if (suite.reference == nullptr || !fs::exists(file)) return values;
  const std::string wanted = fmt::format("BabyBERTa,AO-CHILDES,{},", suite.reference);
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(wanted)) continue;
    std::istringstream fields(line.substr(wanted.size()));
    std::string paradigm, models, mean;
    std::getline(fields, paradigm, ',');
    std::getline(fields, models, ',');
    std::getline(fields, mean, ',');
    char* end = nullptr;
    const double accuracy = std::strtod(mean.c_str(), &end);
    if (mean.empty() || *end != '\0') {
      throw std::runtime_error(
          fmt::format("{}: \"{}\": the mean is no number", file.string(), line));
    }
    values[paradigm == "overall" ? "average" : paradigm] = accuracy;
  }
  return values;
}

void print_rows(const Json& rows, const std::map<std::string, double>& references) {
  print("\n{:<52} {:>8} {:>6} {:>6} {:>5} {:>6}  {:<13}{}\n", "paradigm", "accuracy", "+-", "pairs",
        "ties", "close", "least - most", references.empty() ? "" : "  published");
  for (const Json& row : rows) {
    const auto name = row.at("paradigm").get<std::string>();
    const auto reference = references.find(name);
    const auto close = row.at("close").get<std::int64_t>();
    print("{:<52} {:>8.2f} {:>6.2f} {:>6} {:>5} {:>6}  {:<13}{}\n", name,
          row.at("mean").get<double>(), row.at("standard_error").get<double>(),
          row.at("items").get<std::int64_t>(), row.at("ties").get<std::int64_t>(), close,
          close == 0 ? ""
                     : fmt::format("{:.2f} - {:.2f}", row.at("least").get<double>(),
                                   row.at("most").get<double>()),
          reference == references.end() ? "" : fmt::format("{:>11.2f}", reference->second));
  }
  print(
      "close: pairs whose scores differ by no more than rounding; least - most: the accuracy, "
      "were all of them wrong, or right\n");
  if (!references.empty()) {
    print(
        "published: BabyBERTa trained on all of AO-CHILDES, mean of 10 models; for orientation\n");
  }
}

/// PARADIGM, number of the pair, score of the grammatical and of the ungrammatical sentence.
void write_sentences(const fs::path& file, const std::vector<ParadigmResult>& results) {
  std::string text = "paradigm\tpair\tgrammatical\tungrammatical\n";
  for (const ParadigmResult& result : results) {
    for (std::size_t i = 0; i < result.scores.size(); ++i) {
      text += fmt::format("{}\t{}\t{:.9g}\t{:.9g}\n", result.name, i + 1, result.scores[i][0],
                          result.scores[i][1]);
    }
  }
  write_file(file, text);
}

}  // namespace

void check_pairs(const Evaluation& evaluation, Config&) {
  folder_of(evaluation);
  const fs::path file = evaluation.options.pairs.sentences;
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (!file.empty() && (fs::is_directory(file) || !fs::is_directory(folder))) {
    throw std::invalid_argument(
        fmt::format("--sentences {}: is not a file in a folder that is there", file.string()));
  }
}

Json evaluate_pairs(const Evaluation& evaluation, const Config& config, Model& model) {
  using Clock = std::chrono::steady_clock;
  const LanguageOptions& language = evaluation.options.language;
  const std::string& sentences = evaluation.options.pairs.sentences;
  const PairSuite& suite = pair_suite(evaluation);
  const fs::path folder = folder_of(evaluation);
  const std::vector<Paradigm> paradigms = suite.read(folder);
  const auto start = Clock::now();
  const std::vector<ParadigmResult> results = results_of(language, suite, config, model, paradigms);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  Json rows = to_json(results);
  const auto references = published(folder, suite);
  print_rows(rows, references);
  print("{} in {:.1f} s, {}\n", counted(results.size(), "paradigm"), seconds,
        name_of(language.precision));
  if (!sentences.empty()) write_sentences(sentences, results);
  for (const auto& [paradigm, accuracy] : references) {
    rows.push_back({{"paradigm", paradigm},
                    {"predictor", "published"},
                    {"metric", "accuracy"},
                    {"mean", accuracy}});
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return {{"scoring", suite.scoring},
          {"precision", language.precision},
          // Whole sentences of masked language models are encoded as in training: found.
          {"special_tokens", suite.score ? SpecialTokens::found : language.special_tokens},
          {"data", hash_files(files)},
          {"chance", 50},
          {"majority", 50},
          {"seconds", seconds},
          {"rows", rows}};
}

}  // namespace ssa
