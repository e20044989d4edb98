#include "eval/perplexity.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

namespace ssa {
namespace {

constexpr std::size_t kTokensPerForward = 8192;

std::int64_t count_words(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\v\f";
  std::int64_t words = 0;
  for (std::size_t at = text.find_first_not_of(kSpace); at != text.npos; ++words) {
    at = text.find_first_not_of(kSpace, std::min(text.find_first_of(kSpace, at), text.size()));
  }
  return words;
}

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
  const std::vector<TokenId> ids = encoder_.encode_ordinary(document);
  ++sums_.documents;
  sums_.bytes += static_cast<std::int64_t>(document.size());
  sums_.words += count_words(document);
  // What the model reads: the beginning, then all tokens but the last.
  std::vector<std::int64_t> read = {options_.begin};
  read.insert(read.end(), ids.begin(), ids.end());
  const auto count = static_cast<std::int64_t>(ids.size());
  for (std::int64_t first = 0; first < count;) {  // the first token of the window's targets
    const std::int64_t fresh = first == 0 ? options_.length : options_.stride;
    const std::int64_t end = std::min(count, first + fresh);
    const std::int64_t begin = std::max<std::int64_t>(0, end - options_.length);
    const auto place = static_cast<std::int64_t>(packed_.tokens.size());
    packed_.tokens.insert(packed_.tokens.end(), read.begin() + begin, read.begin() + end);
    for (std::int64_t i = first; i < end; ++i) {
      packed_.wanted.push_back(place + i - begin);
      packed_.targets.push_back(ids[i]);
    }
    packed_.end_sequence();
    scored_.push_back(static_cast<std::int64_t>(packed_.targets.size()));
    first = end;
    if (packed_.tokens.size() >= kTokensPerForward) forward();
  }
}

void PerplexityMeter::forward() {
  if (packed_.targets.empty()) return;
  const torch::NoGradGuard no_gradient;
  model_.eval();
  ModelInput input = packed_.input();
  input.targets = packed_.target_ids();
  const torch::Tensor losses = model_.forward(input).to(torch::kFloat64).contiguous();
  const double* loss = losses.const_data_ptr<double>();
  for (std::size_t window = 0; window + 1 < scored_.size(); ++window) {
    double nats = 0;
    for (std::int64_t i = scored_[window]; i < scored_[window + 1]; ++i) nats += loss[i];
    if (!std::isfinite(nats)) throw std::runtime_error("the loss of a text is not finite");
    const std::int64_t tokens = scored_[window + 1] - scored_[window];
    sums_.nats += nats;
    sums_.tokens += tokens;
    sums_.windows.emplace_back(nats, tokens);
  }
  packed_ = {};
  scored_ = {0};
}

TextLikelihood PerplexityMeter::finish() {
  forward();
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
  add("bits-per-byte", likelihood.bits_per_byte());
  rows.back()["items"] = likelihood.bytes;
  add("word-perplexity", likelihood.word_perplexity());
  rows.back()["items"] = likelihood.words;
  return rows;
}

}  // namespace ssa
