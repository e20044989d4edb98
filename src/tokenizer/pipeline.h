// A tokenizer of parts, as Hugging Face's tokenizer.json describes it and with the ids of its
// library: added tokens, normalizer, pre-tokenizer, model, post-processor, decoder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/subword_model.h"
#include "tokenizer/tokenizer.h"

namespace ssa {

/// What a tokenizer's files say.
struct PipelineParts {
  std::vector<AddedToken> added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  ModelPart model;
  PostProcessor post_processor;
  Detokenizer detokenizer;
  std::optional<std::int64_t> max_length;  ///< the file's truncation: told, not applied
};

class Pipeline : public Tokenizer {
 public:
  /// A tokenizer.json. Throws std::runtime_error naming the file, the field and what is supported
  /// for whatever stands not in docs/formats.md.
  static Pipeline read(const std::filesystem::path& file);

  /// GPT-2's pair of files. <|endoftext|>, if it is in the vocabulary, is a special token.
  static Pipeline read(const std::filesystem::path& vocabulary,
                       const std::filesystem::path& merges);

  explicit Pipeline(PipelineParts parts);

  std::vector<TokenId> encode(std::string_view text, bool add_special_tokens = true) const override;
  std::vector<TokenId> encode_ordinary(std::string_view text) const override;
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens = true) const override;
  std::optional<TokenId> find(std::string_view token) const override;
  bool is_special(TokenId id) const override {
    return tokens_[static_cast<std::size_t>(id)].special;
  }
  TokenId size() const override { return static_cast<TokenId>(tokens_.size()); }

  const PipelineParts& parts() const { return parts_; }
  /// A token in the file's spelling. The id must have one.
  const std::string& name(TokenId id) const;

 private:
  struct Token {
    bool known = false, special = false;
    std::string text;  ///< as the decoder gets it
  };

  std::vector<AddedToken> spelled(bool normalized) const;
  void encode_parts(std::string_view text, bool find_special, std::vector<TokenId>& ids) const;
  void encode_normalized(const Piece& text, bool find_special, std::vector<TokenId>& ids) const;
  void encode_pieces(const Piece& text, std::vector<TokenId>& ids) const;

  PipelineParts parts_;
  bool spell_;  ///< the model wants the characters that stand for bytes
  AddedTokens raw_, normalized_;
  std::vector<Token> tokens_;  ///< by id
};

}  // namespace ssa
