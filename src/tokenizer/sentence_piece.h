// Models of SentencePiece, by its own library. Kudo, Richardson (2018), SentencePiece: A simple and
// language independent subword tokenizer and detokenizer for Neural Text Processing.
#pragma once

#include "tokenizer/tokenizer.h"

namespace ssa {

class SentencePieceModel;

/// Ids are those of PyPI `sentencepiece`. The model normalises the text as it was trained to do
/// (usually: line ends and runs of spaces become one space), so decoding need not give it back.
class SentencePieceTokenizer : public Tokenizer {
 public:
  /// Throws std::runtime_error naming the file that is no such model, or the module that cannot be
  /// loaded.
  explicit SentencePieceTokenizer(const std::filesystem::path& file);
  ~SentencePieceTokenizer() override;

  std::vector<TokenId> encode(std::string_view text, bool add_special_tokens) const override;
  std::vector<TokenId> encode_ordinary(std::string_view text) const override;
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const override;
  std::optional<TokenId> find(std::string_view token) const override;
  bool is_special(TokenId id) const override;
  TokenId size() const override;

 private:
  std::unique_ptr<SentencePieceModel> model_;
};

}  // namespace ssa
