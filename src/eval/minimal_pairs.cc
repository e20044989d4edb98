#include "eval/minimal_pairs.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <unordered_map>

#include "config/counted.h"
#include "eval/likelihood.h"
#include "eval/standard_error.h"
#include "files/json.h"
#include "files/lines.h"
#include "files/utf8.h"
#include "model/device.h"
#include "model/packed_tokens.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

// So that the logits of a forward pass (16 MB at 8192 ids) stay in the cache. All of Zorro in
// bfloat16 on 2 threads: 78 s at 256, 68 s at 512, 76 s at 1024.
constexpr std::int64_t kSentenceTokensPerForward = 512;

[[noreturn]] void fail(const std::string& message) { throw std::runtime_error(message); }

std::vector<fs::path> files_of(const fs::path& folder, const char* extension) {
  std::vector<fs::path> files;
  if (fs::is_directory(folder)) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == extension) files.push_back(entry.path());
    }
  }
  if (files.empty()) fail(fmt::format("{}: no folder of {} files", folder.string(), extension));
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  for_each_line(file, [&](std::string_view line) {
    lines.emplace_back(line);
    if (lines.back().empty()) throw std::invalid_argument("is blank");
    check_utf8(line);
  });
  if (lines.empty()) fail(fmt::format("{}: is empty", file.string()));
  return lines;
}

/// A string of a BLiMP item that is not empty.
std::string text_of(const Json& item, const char* key) {
  const bool there = item.is_object() && item.contains(key) && item.at(key).is_string();
  if (!there || item.at(key).get_ref<const std::string&>().empty()) {
    throw std::invalid_argument(fmt::format("\"{}\" is missing, empty or no string", key));
  }
  return item.at(key).get<std::string>();
}

/// Sentences as ids, and where the model finds what is asked about them.
class SentenceScorer {
 public:
  SentenceScorer(Model& model, const Tokenizer& tokenizer, std::int64_t max_positions,
                 SentenceScore score)
      : model_(model), tokenizer_(tokenizer), max_positions_(max_positions), score_(score) {
    const auto mask = tokenizer.find("<mask>");
    if (score == SentenceScore::pseudo_log_likelihood && !mask) {
      fail("the tokenizer has no token \"<mask>\", which pseudo-log-likelihood needs");
    }
    mask_ = mask.value_or(0);
  }

  void add(const std::string& text) {
    ids_.push_back(tokenizer_.encode(text, /*add_special_tokens=*/true));
    if (static_cast<std::int64_t>(ids_.back().size()) > max_positions_) {
      fail(fmt::format("\"{}\": {} tokens, but model.max_positions = {}", text, ids_.back().size(),
                       max_positions_));
    }
  }

  std::vector<double> scores(const std::function<void(std::int64_t, std::int64_t)>& report) {
    sums_.assign(ids_.size(), 0.0);
    const bool holistic = score_ == SentenceScore::holistic;
    for (std::size_t s = 0; s < ids_.size(); ++s) {
      const auto length = static_cast<std::int64_t>(ids_[s].size());
      if (holistic) {
        for (std::int64_t i = 0; i < length; ++i) ask(s, i);
        append(s);
      }
      for (std::int64_t i = 0; !holistic && i < length; ++i) {
        if (tokenizer_.is_special(ids_[s][i])) continue;
        ask(s, i);
        append(s);
        packed_.tokens[packed_.wanted.back()] = mask_;
      }
      const bool last = s + 1 == ids_.size();
      if (static_cast<std::int64_t>(packed_.tokens.size()) >= kSentenceTokensPerForward || last) {
        forward();
        if (report) report(s + 1, ids_.size());
      }
    }
    for (std::size_t s = 0; s < ids_.size(); ++s) {
      if (holistic) sums_[s] /= static_cast<double>(ids_[s].size());
      if (!holistic) sums_[s] = -sums_[s];
      if (!std::isfinite(sums_[s])) {
        fail(fmt::format("\"{}\": its score is not finite", tokenizer_.decode(ids_[s], true)));
      }
    }
    return sums_;
  }

 private:
  /// The cross-entropy of token i of the sentence that append() puts next.
  void ask(std::size_t sentence, std::int64_t i) {
    packed_.wanted.push_back(static_cast<std::int64_t>(packed_.tokens.size()) + i);
    packed_.targets.push_back(ids_[sentence][i]);
    owners_.push_back(sentence);
  }

  void append(std::size_t sentence) {
    packed_.tokens.insert(packed_.tokens.end(), ids_[sentence].begin(), ids_[sentence].end());
    packed_.end_sequence();
  }

  void forward() {
    if (owners_.empty()) return;
    const torch::Tensor logits = model_.forward(packed_.input());
    const torch::Tensor losses =
        torch::cross_entropy_loss(logits, on_device(packed_.target_ids(), logits.device()), {},
                                  at::Reduction::None)
            .to(torch::kCPU, torch::kDouble);
    const double* loss = losses.const_data_ptr<double>();
    for (std::size_t i = 0; i < owners_.size(); ++i) sums_[owners_[i]] += loss[i];
    packed_ = {};
    owners_.clear();
  }

  Model& model_;
  const Tokenizer& tokenizer_;
  std::int64_t max_positions_;
  SentenceScore score_;
  TokenId mask_ = 0;
  std::vector<std::vector<TokenId>> ids_;
  std::vector<double> sums_;
  PackedTokens packed_;              ///< the forward pass that is being put together
  std::vector<std::size_t> owners_;  ///< the sentence of each wanted token
};

}  // namespace

std::vector<Paradigm> read_zorro(const fs::path& folder) {
  std::vector<Paradigm> paradigms;
  for (const fs::path& file : files_of(folder, ".txt")) {
    Paradigm paradigm;
    paradigm.name = file.stem().string();
    const std::size_t dash = paradigm.name.rfind('-');
    if (dash == std::string::npos) {
      fail(fmt::format("{}: expected a name PHENOMENON-PARADIGM.txt", file.string()));
    }
    paradigm.phenomenon = paradigm.name.substr(0, dash);
    const std::vector<std::string> lines = lines_of(file);
    if (lines.size() % 2 != 0) {
      fail(fmt::format("{}: {}, but two belong to a pair", file.string(),
                       counted(lines.size(), "line")));
    }
    for (std::size_t i = 0; i < lines.size(); i += 2) {
      paradigm.pairs.push_back({lines[i + 1], lines[i]});
    }
    paradigms.push_back(std::move(paradigm));
  }
  return paradigms;
}

std::vector<Paradigm> read_blimp(const fs::path& folder) {
  std::vector<Paradigm> paradigms;
  for (const fs::path& file : files_of(folder, ".jsonl")) {
    Paradigm paradigm;
    for_each_line(file, [&](std::string_view line) {
      const Json item = parse_json(line);
      paradigm.name = text_of(item, "UID");
      paradigm.phenomenon = text_of(item, "linguistics_term");
      paradigm.pairs.push_back({text_of(item, "sentence_good"), text_of(item, "sentence_bad")});
    });
    if (paradigm.pairs.empty()) fail(fmt::format("{}: is empty", file.string()));
    for (const Paradigm& other : paradigms) {
      if (other.name != paradigm.name) continue;
      fail(fmt::format("{}: UID \"{}\" is another file's too", file.string(), paradigm.name));
    }
    paradigms.push_back(std::move(paradigm));
  }
  return paradigms;
}

double rounding_of(Precision precision) {
  switch (precision) {
    case Precision::float32:
      return 0x1p-20;
    case Precision::bfloat16:
      break;
  }
  return 0x1p-8;
}

double ParadigmResult::accuracy() const {
  return 100 * (static_cast<double>(right) + 0.5 * static_cast<double>(ties)) /
         static_cast<double>(pairs);
}

double ParadigmResult::least_accuracy() const {
  return 100 * static_cast<double>(right - close_right) / static_cast<double>(pairs);
}

double ParadigmResult::most_accuracy() const {
  return 100 * static_cast<double>(right - close_right + close) / static_cast<double>(pairs);
}

double ParadigmResult::standard_error() const {
  // Each pair counts 1, 1/2 or 0.
  const double sum = static_cast<double>(right) + 0.5 * static_cast<double>(ties);
  const double squares = static_cast<double>(right) + 0.25 * static_cast<double>(ties);
  return 100 * standard_error_of_mean(sum, squares, static_cast<double>(pairs));
}

std::vector<ParadigmResult> evaluate_minimal_pairs(const std::vector<Paradigm>& paradigms,
                                                   const SentenceScores& scores_of, bool lower_wins,
                                                   double rounding) {
  std::unordered_map<std::string, std::size_t> numbers;
  std::vector<std::string> sentences;
  for (const Paradigm& paradigm : paradigms) {
    for (const auto& pair : paradigm.pairs) {
      for (const std::string& sentence : pair) {
        if (numbers.emplace(sentence, sentences.size()).second) sentences.push_back(sentence);
      }
    }
  }
  const std::vector<double> scores = scores_of(sentences);

  std::vector<ParadigmResult> results;
  for (const Paradigm& paradigm : paradigms) {
    ParadigmResult result{.name = paradigm.name, .phenomenon = paradigm.phenomenon};
    for (const auto& [good_sentence, bad_sentence] : paradigm.pairs) {
      const double good = scores[numbers.at(good_sentence)], bad = scores[numbers.at(bad_sentence)];
      ++result.pairs;
      const bool right = lower_wins ? good < bad : good > bad;
      const bool close = std::abs(good - bad) <= rounding * std::max(std::abs(good), std::abs(bad));
      result.ties += good == bad;
      result.right += right;
      result.close += close;
      result.close_right += close && right;
      result.scores.push_back({good, bad});
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::vector<ParadigmResult> evaluate_minimal_pairs(
    Model& model, const Tokenizer& tokenizer, std::int64_t max_positions,
    const std::vector<Paradigm>& paradigms, SentenceScore score, double rounding,
    const std::function<void(std::int64_t, std::int64_t)>& report) {
  const torch::NoGradGuard no_gradient;
  model.eval();
  const auto scores_of = [&](const std::vector<std::string>& sentences) {
    SentenceScorer scorer(model, tokenizer, max_positions, score);
    for (const std::string& sentence : sentences) scorer.add(sentence);
    return scorer.scores(report);
  };
  return evaluate_minimal_pairs(paradigms, scores_of, score == SentenceScore::holistic, rounding);
}

std::vector<ParadigmResult> evaluate_minimal_pairs(
    Model& decoder, const Tokenizer& tokenizer, TokenId begin, std::int64_t max_positions,
    const std::vector<Paradigm>& paradigms, double rounding,
    const std::function<void(std::int64_t, std::int64_t)>& report) {
  const auto scores_of = [&](const std::vector<std::string>& sentences) {
    std::vector<LikelihoodRequest> requests;
    for (const std::string& sentence : sentences) {
      requests.push_back({{begin}, tokenizer.encode_ordinary(sentence)});
    }
    std::vector<double> scores;
    for (const Likelihood& one : log_likelihoods(decoder, max_positions, requests, report)) {
      scores.push_back(one.log_probability);
    }
    return scores;
  };
  return evaluate_minimal_pairs(paradigms, scores_of, /*lower_wins=*/false, rounding);
}

namespace {

/// A row of docs/formats.md, of one paradigm or of several.
struct AccuracyRow {
  std::string paradigm, phenomenon;
  double mean = 0, variance = 0, least = 0, most = 0;
  std::int64_t items = 0, ties = 0, close = 0, count = 0;

  void add(const ParadigmResult& result) {
    mean += result.accuracy();
    variance += result.standard_error() * result.standard_error();
    least += result.least_accuracy();
    most += result.most_accuracy();
    items += result.pairs;
    ties += result.ties;
    close += result.close;
    ++count;
  }

  Json json() const {
    const auto n = static_cast<double>(count);
    return {{"paradigm", paradigm}, {"phenomenon", phenomenon},
            {"predictor", "model"}, {"metric", "accuracy"},
            {"mean", mean / n},     {"standard_error", std::sqrt(variance) / n},
            {"items", items},       {"ties", ties},
            {"close", close},       {"least", least / n},
            {"most", most / n}};
  }
};

}  // namespace

Json to_json(const std::vector<ParadigmResult>& results) {
  Json rows = Json::array();
  std::vector<AccuracyRow> phenomena;
  AccuracyRow average{.paradigm = "average", .phenomenon = ""};
  for (const ParadigmResult& result : results) {
    AccuracyRow own{.paradigm = result.name, .phenomenon = result.phenomenon};
    own.add(result);
    rows.push_back(own.json());
    auto group = std::ranges::find(phenomena, result.phenomenon, &AccuracyRow::phenomenon);
    if (group == phenomena.end()) {
      group = phenomena.insert(group, AccuracyRow{.paradigm = "mean of " + result.phenomenon,
                                                  .phenomenon = result.phenomenon});
    }
    group->add(result);
    average.add(result);
  }
  for (const AccuracyRow& group : phenomena) rows.push_back(group.json());
  rows.push_back(average.json());
  return rows;
}

}  // namespace ssa
