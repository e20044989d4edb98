// Tokens that are found in the text before anything else happens to it: <mask>, <|endoftext|>, …
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/json_node.h"
#include "tokenizer/token_id.h"
#include "tokenizer/vocabulary.h"

namespace ssa {

struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool special = false;      ///< decoding may leave it out
  bool normalized = false;   ///< looked for in the normalised text, itself normalised
  bool single_word = false;  ///< not beside a letter, a digit, a mark or _
  bool lstrip = false;       ///< takes white space before it
  bool rstrip = false;       ///< takes white space after it
};

/// Finds added tokens: at each place the longest, from left to right.
class AddedTokens {
 public:
  /// A part of a text: a token, or what stands between two of them, never empty.
  struct Part {
    std::string_view text;
    std::optional<TokenId> token;
  };

  /// Each content is searched for as it stands, and must not be empty.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// Without `find_special`, special tokens are text like any other.
  std::vector<Part> split(std::string_view text, bool find_special = true) const;

 private:
  const AddedToken* match(std::string_view text) const;

  std::array<std::vector<AddedToken>, 256> tokens_;  ///< by their first byte, the longest first
};

/// The list "added_tokens". Throws std::runtime_error naming a token whose id is not the one that
/// `tokenizers` would give it: the vocabulary's, or the next one after all others.
std::vector<AddedToken> read_added_tokens(const JsonNode& list, const Vocabulary& vocabulary);

}  // namespace ssa
