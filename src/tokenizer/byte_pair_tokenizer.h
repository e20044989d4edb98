// Byte-level BPE: text to token ids and back, with the ids of Hugging Face's `tokenizers`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/byte_pairs.h"
#include "tokenizer/tokenizer.h"

namespace ssa {

/// What a tokenizer's file says.
struct TokenizerSpec {
  std::map<std::string, TokenId, std::less<>>
      vocabulary;             ///< in the file's spelling: Ġ for a space
  std::vector<Merge> merges;  ///< the sooner, the earlier
  std::optional<UnknownByte> unknown;
  std::vector<AddedToken> added;
  bool lowercase = false;
  bool add_prefix_space = false;
  bool split_words = true;              ///< by GPT-2's pattern; else a text is one word
  std::vector<TokenId> prefix, suffix;  ///< special tokens around a text
  bool can_decode = true;
  std::optional<std::int64_t> max_length;  ///< the file's truncation: told, not applied

  /// The id of a token in the file's spelling ("Ġthe", "<mask>").
  std::optional<TokenId> find(std::string_view token) const;
};

/// Immutable after construction, so any number of threads may share one.
class BytePairTokenizer : public Tokenizer {
 public:
  /// A tokenizer.json of Hugging Face's `tokenizers`. Throws std::runtime_error naming the file,
  /// the field and what is supported for whatever is not a byte-level BPE as described in
  /// docs/formats.md.
  static BytePairTokenizer read(const std::filesystem::path& file);

  /// GPT-2's pair of files. <|endoftext|>, if it is in the vocabulary, is a special token.
  static BytePairTokenizer read(const std::filesystem::path& vocabulary,
                                const std::filesystem::path& merges);

  explicit BytePairTokenizer(TokenizerSpec spec);

  /// Ids of `text`; with the tokens that the file's post-processor puts around a text (<s> … </s>)
  /// if `add_special_tokens`. Special tokens written in the text are found either way. Never
  /// truncates or pads. Throws std::invalid_argument naming the offset where the text is not valid
  /// UTF-8.
  std::vector<TokenId> encode(std::string_view text, bool add_special_tokens = true) const override;

  /// The same without any special token: none is put around the text, and one written in it is
  /// text like any other, as with `encode_special_tokens` of Hugging Face's tokenizers.
  std::vector<TokenId> encode_ordinary(std::string_view text) const override;

  /// The text of `ids`, U+FFFD standing for bytes that are not valid UTF-8. Throws
  /// std::invalid_argument naming an id that the vocabulary does not have.
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens = true) const override;

  std::optional<TokenId> find(std::string_view token) const override { return spec_.find(token); }

  bool is_special(TokenId id) const override {
    return tokens_[static_cast<std::size_t>(id)].special;
  }

  TokenId size() const override { return static_cast<TokenId>(tokens_.size()); }

  const TokenizerSpec& spec() const { return spec_; }

 private:
  struct Token {
    bool known = false, special = false;
    std::string bytes;
  };

  void encode_parts(std::string_view text, bool find_special, std::vector<TokenId>& ids) const;
  void encode_normalized(std::string_view text, bool find_special, std::vector<TokenId>& ids) const;
  void encode_words(std::string_view text, std::vector<TokenId>& ids) const;

  TokenizerSpec spec_;
  BytePairs pairs_;
  AddedTokens raw_, normalized_;
  std::vector<Token> tokens_;  ///< by id
};

}  // namespace ssa
