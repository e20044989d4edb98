#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "text/words.h"

namespace ssa {
namespace {

constexpr std::int64_t kTokensAtATime = 1 << 16;  ///< so that a long text is not held as requests

}  // namespace

double TextLikelihood::token_perplexity() const {
  return std::exp(nats / static_cast<double>(tokens));
}

double TextLikelihood::bits_per_byte() const {
  return nats / std::numbers::ln2 / static_cast<double>(bytes);
}

double TextLikelihood::word_perplexity() const {
  return std::exp(nats / static_cast<double>(words));
}

TextLikelihood::Rare TextLikelihood::rarest_tenth() const {
  std::vector<std::pair<double, std::int64_t>> rarest;
  for (const auto& [id, sums] : ids) rarest.push_back(sums);
  std::ranges::stable_sort(rarest, {}, &std::pair<double, std::int64_t>::second);
  Rare rare;
  double sum = 0;
  for (const auto& [of_id, number] : rarest) {
    if (10 * (rare.tokens + number) > tokens) break;
    sum += of_id;
    rare.tokens += number;
  }
  rare.perplexity = std::exp(sum / static_cast<double>(rare.tokens));
  return rare;
}

double TextLikelihood::standard_error() const {
  const auto count = static_cast<double>(windows.size());
  if (windows.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  // Of a ratio of sums (Cochran 1977, Sampling Techniques, 6.4), then of its exponential.
  const double mean = nats / static_cast<double>(tokens);
  double squares = 0;
  for (const auto& [sum, number] : windows) {
    const double residual = sum - mean * static_cast<double>(number);
    squares += residual * residual;
  }
  const double error = std::sqrt(squares * count / (count - 1)) / static_cast<double>(tokens);
  return error * token_perplexity();
}

void PerplexityMeter::add(std::string_view document) {
  const std::vector<TokenId> ids = tokenizer_.encode_ordinary(document);
  ++sums_.documents;
  sums_.bytes += static_cast<std::int64_t>(document.size());
  sums_.words += count_words(document);
  std::vector<TokenId> read = {options_.begin};
  read.insert(read.end(), ids.begin(), ids.end());
  const auto place = [&](std::int64_t i) { return read.begin() + static_cast<std::ptrdiff_t>(i); };
  const auto count = static_cast<std::int64_t>(ids.size());
  for (std::int64_t first = 0; first < count;) {  // of the window's targets, read[first + 1] on
    const std::int64_t fresh = first == 0 ? options_.length : options_.stride;
    const std::int64_t end = std::min(count, first + fresh);
    const std::int64_t begin = std::max<std::int64_t>(0, end - options_.length);
    windows_.push_back({{place(begin), place(first + 1)}, {place(first + 1), place(end + 1)}});
    pending_ += end - begin;
    first = end;
    if (pending_ >= kTokensAtATime) score();
  }
}

void PerplexityMeter::score() {
  const auto found = log_likelihoods(model_, options_.length, windows_);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto tokens = static_cast<std::int64_t>(windows_[i].continuation.size());
    sums_.nats -= found[i].log_probability;
    sums_.tokens += tokens;
    sums_.windows.emplace_back(-found[i].log_probability, tokens);
    for (std::size_t t = 0; t < windows_[i].continuation.size(); ++t) {
      auto& [nats, number] = sums_.ids[windows_[i].continuation[t]];
      nats -= found[i].of_tokens[t];
      ++number;
    }
  }
  windows_.clear();
  pending_ = 0;
}

TextLikelihood PerplexityMeter::finish() {
  score();
  if (sums_.tokens == 0) throw std::runtime_error("there is no token to score");
  return sums_;
}

Json to_json(const std::string& text, const TextLikelihood& likelihood) {
  Json rows = Json::array();
  const auto add = [&](const char* metric, double mean) {
    rows.push_back({{"text", text}, {"predictor", "model"}, {"metric", metric}, {"mean", mean}});
  };
  add("perplexity", likelihood.token_perplexity());
  rows.back()["standard_error"] = likelihood.standard_error();
  rows.back()["items"] = likelihood.tokens;
  if (const auto rare = likelihood.rarest_tenth(); rare.tokens > 0) {
    add("rare-perplexity", rare.perplexity);
    rows.back()["items"] = rare.tokens;
  }
  add("bits-per-byte", likelihood.bits_per_byte());
  rows.back()["items"] = likelihood.bytes;
  add("word-perplexity", likelihood.word_perplexity());
  rows.back()["items"] = likelihood.words;
  return rows;
}

}  // namespace ssa
