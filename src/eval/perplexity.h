// How well a language model predicts text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/field.h"
#include "eval/likelihood.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace ssa {

struct WindowOptions {
  std::int64_t length = 1024;  ///< most tokens that the model reads at a time
  /// New tokens of a window after a document's first one: the last `stride` of its `length` are
  /// scored, those before are context alone. At most `length`.
  std::int64_t stride = 1024;
  TokenId begin = 0;  ///< stands before each document, so that its first token is scored too
};

/// Sums over documents.
struct TextLikelihood {
  double nats = 0;  ///< −Σ log p
  std::int64_t tokens = 0, bytes = 0, words = 0, documents = 0;
  std::vector<std::pair<double, std::int64_t>> windows = {};    ///< nats and tokens of each
  std::map<TokenId, std::pair<double, std::int64_t>> ids = {};  ///< nats and number of each id

  double token_perplexity() const;
  double bits_per_byte() const;
  double word_perplexity() const;  ///< a word is what white space separates

  struct Rare {
    double perplexity = 0;
    std::int64_t tokens = 0;
  };
  /// The token perplexity over the rarest tenth of the text's tokens: ids from the rarest in this
  /// text on (of equally rare ones the lower id first) while they make no more than a tenth of
  /// it. No tokens where the rarest id alone makes more.
  Rare rarest_tenth() const;
  /// Of token_perplexity, from the spread over windows; NaN of fewer than two.
  double standard_error() const;
};

/// Every token of every document is scored once, given what stands before it in its document and
/// window.
class PerplexityMeter {
 public:
  PerplexityMeter(Model& model, const Tokenizer& tokenizer, const WindowOptions& options)
      : model_(model), tokenizer_(tokenizer), options_(options) {}

  void add(std::string_view document);
  /// After the last document. Throws std::runtime_error if there is no token or a result is not
  /// finite.
  TextLikelihood finish();
  /// Of the documents that are done.
  const TextLikelihood& so_far() const { return sums_; }

 private:
  void score();

  Model& model_;
  const Tokenizer& tokenizer_;
  WindowOptions options_;
  TextLikelihood sums_;
  std::vector<LikelihoodRequest> windows_;  ///< that are not scored yet
  std::int64_t pending_ = 0;                ///< their tokens
};

/// Rows of evals/ppl.json: text, metric, mean (and standard_error, items) of each.
Json to_json(const std::string& text, const TextLikelihood& likelihood);

}  // namespace ssa
