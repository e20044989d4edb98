// Tokens that are found in the text before anything else happens to it: <mask>, <|endoftext|>, …
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/byte_pairs.h"

namespace ssa {

struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool special = false;     ///< decoding may leave it out
  bool normalized = false;  ///< looked for in the normalised text, itself normalised
  bool lstrip = false;      ///< takes white space before it
  bool rstrip = false;      ///< takes white space after it
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

  std::vector<AddedToken> tokens_;  ///< the longest first
  std::array<bool, 256> begins_{};  ///< bytes with which one of them begins
};

}  // namespace ssa
