// The tokens of a model and their ids.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/json_node.h"
#include "tokenizer/token_id.h"

namespace ssa {

/// Finds strings by views of them.
struct StringHash : std::hash<std::string_view> {
  using is_transparent = void;
};
using TokenMap = std::unordered_map<std::string, TokenId, StringHash, std::equal_to<>>;

/// In the spelling of the tokenizer's file: Ġ for a space of byte-level BPE.
class Vocabulary {
 public:
  /// An object of ids by token. Throws std::runtime_error naming an id that is there twice.
  static Vocabulary read(const JsonNode& object);

  /// False, and nothing is added, where another token has the id.
  bool add(std::string token, TokenId id);

  std::optional<TokenId> find(std::string_view token) const;
  /// Null where no token has the id.
  const std::string* token(TokenId id) const;

  /// Number of tokens.
  std::size_t count() const { return ids_.size(); }
  /// The largest id + 1.
  TokenId size() const { return static_cast<TokenId>(tokens_.size()); }
  const TokenMap& ids() const { return ids_; }

 private:
  TokenMap ids_;
  std::vector<const std::string*> tokens_;  ///< by id; the keys of ids_, which stay where they are
};

}  // namespace ssa
