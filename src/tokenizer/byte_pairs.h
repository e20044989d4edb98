// Byte-pair encoding of one word. Sennrich, Haddow, Birch (2016), Neural Machine Translation of
// Rare Words with Subword Units.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ssa {

using TokenId = std::int32_t;

/// Two neighbouring tokens and what they become.
struct Merge {
  TokenId left, right, merged;
};

/// What a byte becomes that has no token.
struct UnknownByte {
  TokenId id;
  bool fuse;  ///< one token for a run of them
};

/// Immutable, so any number of threads may share one.
class BytePairs {
 public:
  static constexpr TokenId kNone = -1;

  /// `byte_ids`: the token of each byte alone, or kNone. `merges`: the earlier, the sooner.
  /// `tokens`: the bytes and id of every token. A word that is one token, as 94 % of the words of
  /// AO-CHILDES and 81 to 92 % of Wikipedia's are, is found by one look-up; a cache of words that
  /// were met would need locks and a bound. Without `unknown`, bytes that have no token are left
  /// out.
  BytePairs(const std::array<TokenId, 256>& byte_ids, std::span<const Merge> merges,
            std::optional<UnknownByte> unknown,
            std::span<const std::pair<std::string, TokenId>> tokens);

  /// Appends the ids of `word`: of all neighbours that may merge, those of the earliest merge do
  /// (the leftmost ones first), until none may. O(n log n).
  void encode(std::string_view word, std::vector<TokenId>& ids) const;

 private:
  struct Entry {
    std::uint64_t pair;  ///< left << 32 | right; kNoPair marks an empty place
    std::uint32_t rank;
    TokenId merged;
  };
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};
  struct Scratch;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  const Entry* find(TokenId left, TokenId right) const;
  void insert(const Merge& merge, std::uint32_t rank);
  std::size_t place_of(std::uint64_t pair) const;
  void merge(std::string_view word, std::vector<TokenId>& ids) const;

  std::array<TokenId, 256> byte_ids_;
  std::optional<UnknownByte> unknown_;
  std::vector<Entry> table_;  ///< open addressing; at most half full
  int shift_ = 0;
  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> whole_words_;
};

}  // namespace ssa
