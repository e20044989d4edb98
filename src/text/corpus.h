// Text with one sentence a line, as token ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace ssa {

/// Which lines become sentences.
struct CorpusOptions {
  std::int64_t least_words = 1;  ///< of words that spaces separate
  std::int64_t most_tokens = std::numeric_limits<std::int64_t>::max();  ///< longer ones are dropped
  std::optional<TokenId> padding = {};  ///< a token that no sentence may have
  bool skip_bad_lines = false;          ///< leave bad lines out, instead of throwing
};

/// What became of a file's lines.
struct CorpusReport {
  std::filesystem::path file;
  std::int64_t lines = 0, sentences = 0;
  std::int64_t blank = 0, few_words = 0, many_tokens = 0;  ///< left out, and why
  std::int64_t bad = 0;               ///< left out: not UTF-8, or with padding written in them
  std::int64_t carriage_returns = 0;  ///< lines that ended in \r\n; the \r is no text
  bool byte_order_mark = false;       ///< at the file's start; it is no text

  /// "train.txt: 158054 lines, 126079 sentences; left out: 31975 of fewer than 3 words"
  std::string text(const CorpusOptions& options) const;
};

/// Immutable after reading.
class Corpus {
 public:
  /// The files' lines, one after another; the tokenizer puts its special tokens around each. Throws
  /// std::runtime_error naming the file that cannot be read, file and line of a bad line, and for
  /// files that have no sentence together.
  static Corpus read(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                     const CorpusOptions& options);

  std::int64_t size() const { return static_cast<std::int64_t>(starts_.size()) - 1; }
  std::int64_t tokens() const { return starts_.back(); }
  std::span<const TokenId> operator[](std::int64_t sentence) const {
    return std::span(ids_).subspan(starts_[sentence], starts_[sentence + 1] - starts_[sentence]);
  }
  const std::vector<CorpusReport>& reports() const { return reports_; }

 private:
  void read_file(const std::filesystem::path& file, const Tokenizer& tokenizer,
                 const CorpusOptions& options);

  std::vector<TokenId> ids_;
  std::vector<std::int64_t> starts_ = {0};  ///< of each sentence, and the end
  std::vector<CorpusReport> reports_;
};

}  // namespace ssa
