// Byte-pair encoding of one piece of text. Sennrich, Haddow, Birch (2016), Neural Machine
// Translation of Rare Words with Subword Units.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/subword_model.h"
#include "tokenizer/vocabulary.h"

namespace ssa {

/// Two neighbouring tokens and what they become.
struct Merge {
  TokenId left, right, merged;
};

/// What a symbol becomes that has no token.
struct UnknownSymbol {
  TokenId id;
  bool fuse;  ///< one token for a run of them
};

struct BytePairOptions {
  bool bytes = false;  ///< the symbols of a piece are its bytes, not its characters
  std::optional<UnknownSymbol> unknown = std::nullopt;  ///< without, such symbols are left out
  bool whole_first = false;    ///< a piece that is a token is that one, whatever its merges are
  bool byte_fallback = false;  ///< tokens <0x00> … <0xFF> stand for the bytes of unknown characters
  std::string continuing_prefix = {};  ///< of the symbols after the first
  std::string end_suffix = {};         ///< of the last symbol
};

/// Immutable, so any number of threads may share one.
class BytePairs : public SubwordModel {
 public:
  /// `tokens`: of bytes where `options.bytes`. `merges`: the earlier, the sooner. A word that is
  /// one token, as 94 % of the words of AO-CHILDES and 81 to 92 % of Wikipedia's are, is found by
  /// one look-up; a cache of words that were met would need locks and a bound.
  BytePairs(TokenMap tokens, std::span<const Merge> merges, BytePairOptions options);

  /// Of all neighbours that may merge, those of the earliest merge do (the leftmost ones first),
  /// until none may. O(n log n).
  void encode(std::string_view piece, std::vector<TokenId>& ids) const override;

 private:
  struct Entry {
    std::uint64_t pair;  ///< left << 32 | right; kNoPair marks an empty place
    std::uint32_t rank;
    TokenId merged;
  };
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};
  static constexpr TokenId kNone = -1;
  struct Scratch;
  class Symbols;

  const Entry* find(TokenId left, TokenId right) const;
  void insert(const Merge& merge, std::uint32_t rank);
  std::size_t place_of(std::uint64_t pair) const;
  void keep_whole_words();
  void add_bytes(std::string_view piece, Symbols& symbols) const;
  void add_characters(std::string_view piece, Symbols& symbols) const;
  bool add_fallback(std::string_view symbol, Symbols& symbols) const;
  void merge(std::string_view piece, std::vector<TokenId>& ids) const;

  TokenMap tokens_;
  BytePairOptions options_;
  std::array<TokenId, 256> byte_ids_{};      ///< of each byte alone
  std::array<TokenId, 256> fallback_ids_{};  ///< of <0x00> … <0xFF>
  std::vector<Entry> table_;                 ///< open addressing; at most half full
  int shift_ = 0;
  TokenMap whole_words_;
};

}  // namespace ssa
