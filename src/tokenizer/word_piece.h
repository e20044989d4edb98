// WordPiece: of a word the longest token that it begins with, then of the rest. Schuster, Nakajima
// (2012), Japanese and Korean Voice Search; Devlin, Chang, Lee, Toutanova (2019), BERT. And
// WordLevel, where a word is one token.
#pragma once

#include <optional>
#include <string>

#include "tokenizer/subword_model.h"

namespace ssa {

struct WordPieceOptions {
  TokenId unknown = 0;
  std::string continuing_prefix = "##";  ///< of tokens that do not begin a word
  std::size_t longest_word = 100;        ///< in characters; a longer one is unknown
};

class WordPiece : public SubwordModel {
 public:
  /// The vocabulary must outlive the model.
  WordPiece(const Vocabulary& vocabulary, WordPieceOptions options);

  void encode(std::string_view piece, std::vector<TokenId>& ids) const override;

 private:
  TokenMap first_, later_;   ///< tokens that begin a word, and those that go on, without the prefix
  std::size_t longest_ = 0;  ///< bytes of the longest token
  WordPieceOptions options_;
};

class WordLevel : public SubwordModel {
 public:
  WordLevel(const Vocabulary& vocabulary, std::optional<TokenId> unknown)
      : tokens_(vocabulary.ids()), unknown_(unknown) {}

  void encode(std::string_view piece, std::vector<TokenId>& ids) const override;

 private:
  TokenMap tokens_;
  std::optional<TokenId> unknown_;
};

}  // namespace ssa
