// One interface for every kind of tokenizer.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/token_id.h"

namespace ssa {

/// Text to token ids and back. Immutable, so any number of threads may share one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The ids that the tokenizer's own library gives. Of byte-level BPE: special tokens written in
  /// the text are found, and the file's own stand around it if `add_special_tokens`. SentencePiece
  /// does neither. Throws std::invalid_argument naming the byte that is not valid UTF-8.
  virtual std::vector<TokenId> encode(std::string_view text,
                                      bool add_special_tokens = true) const = 0;

  /// All of `text` as text: no special token is put around it, and one that is written in it
  /// becomes the ids of its letters.
  virtual std::vector<TokenId> encode_ordinary(std::string_view text) const = 0;

  /// Throws std::invalid_argument naming an id that the vocabulary does not have.
  virtual std::string decode(std::span<const TokenId> ids,
                             bool skip_special_tokens = true) const = 0;

  /// The id of a token in the vocabulary's spelling.
  virtual std::optional<TokenId> find(std::string_view token) const = 0;

  /// Whether the id, which must be below size(), is a special token's (<s>, <mask>, …).
  virtual bool is_special(TokenId id) const = 0;

  /// The largest id + 1: what an embedding needs.
  virtual TokenId size() const = 0;
};

/// A .model of SentencePiece, a tokenizer.json, or a vocab.json with `merges` (else empty). Throws
/// std::runtime_error naming the file and what is wrong with it.
std::unique_ptr<Tokenizer> read_tokenizer(const std::filesystem::path& file,
                                          const std::filesystem::path& merges = {});

/// The same tokenizer, but for encode_ordinary(): it finds special tokens that are written in the
/// text, as encode() does.
std::unique_ptr<Tokenizer> find_special_tokens(std::unique_ptr<Tokenizer> tokenizer);

/// A short name for what such a tokenizer is, wherever its files lie and whatever they are called.
std::string hash_tokenizer(const std::filesystem::path& file,
                           const std::filesystem::path& merges = {});

/// Whether the file is read as a model of SentencePiece: its name ends in .model.
bool is_sentence_piece(const std::filesystem::path& file);

/// The token that ends a document.
struct EndToken {
  std::string token;
  TokenId id = 0;
};

/// The one called `name`; where that is empty, <|endoftext|> or else </s>. Throws
/// std::runtime_error if the vocabulary lacks it.
EndToken find_end_token(const Tokenizer& tokenizer, const std::string& name = {});

}  // namespace ssa
