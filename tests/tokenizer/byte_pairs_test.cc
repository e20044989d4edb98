#include "tokenizer/byte_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "ssa/philox.h"

namespace ssa {
namespace {

/// An alphabet of ids 0, 1, … and merges that number on.
struct Example {
  std::vector<Merge> merges;
  std::vector<std::pair<std::string, TokenId>> tokens;

  explicit Example(const std::string& alphabet) {
    for (const char c : alphabet) {
      tokens.emplace_back(std::string(1, c), static_cast<TokenId>(tokens.size()));
    }
  }

  TokenId id(const std::string& token) const {
    return std::ranges::find(tokens, token, &std::pair<std::string, TokenId>::first)->second;
  }

  Example& merge(const std::string& left, const std::string& right) {
    const auto same =
        std::ranges::find(tokens, left + right, &std::pair<std::string, TokenId>::first);
    const TokenId merged =
        same == tokens.end() ? static_cast<TokenId>(tokens.size()) : same->second;
    merges.push_back({id(left), id(right), merged});
    if (same == tokens.end()) tokens.emplace_back(left + right, merged);
    return *this;
  }

  BytePairs pairs(std::optional<UnknownSymbol> unknown = std::nullopt, bool bytes = true) const {
    return {TokenMap(tokens.begin(), tokens.end()), merges, {.bytes = bytes, .unknown = unknown}};
  }

  std::vector<std::string> encode(const std::string& word) const {
    std::vector<TokenId> ids;
    pairs().encode(word, ids);
    std::vector<std::string> names;
    for (const TokenId id : ids) names.push_back(tokens[static_cast<std::size_t>(id)].first);
    return names;
  }

  /// What the paper says, a round at a time.
  std::vector<TokenId> plain(const std::string& word) const {
    std::vector<TokenId> ids;
    for (const char c : word) ids.push_back(id(std::string(1, c)));
    while (true) {
      std::size_t best_rank = merges.size(), best_at = 0;
      for (std::size_t at = 0; at + 1 < ids.size(); ++at) {
        for (std::size_t rank = 0; rank < best_rank; ++rank) {
          if (merges[rank].left == ids[at] && merges[rank].right == ids[at + 1]) {
            best_rank = rank;
            best_at = at;
          }
        }
      }
      if (best_rank == merges.size()) return ids;
      ids[best_at] = merges[best_rank].merged;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
    }
  }
};

using Names = std::vector<std::string>;

TEST(BytePairs, EarlierMergesGoFirst) {
  const Example example = Example("abcd").merge("b", "c").merge("a", "b").merge("a", "bc");
  EXPECT_EQ(example.encode("abc"), (Names{"abc"}));
  EXPECT_EQ(example.encode("abd"), (Names{"ab", "d"}));
  EXPECT_EQ(example.encode("abcabd"), (Names{"abc", "ab", "d"}));
  EXPECT_EQ(example.encode(""), Names{});
}

TEST(BytePairs, LeftmostOfEquals) {
  EXPECT_EQ(Example("a").merge("a", "a").encode("aaaaa"), (Names{"aa", "aa", "a"}));
}

TEST(BytePairs, ATokenThatNoMergeReachesIsNotUsed) {
  Example example("abc");
  example.tokens.emplace_back("abc", 3);
  EXPECT_EQ(example.encode("abc"), (Names{"a", "b", "c"}));
}

TEST(BytePairs, AgreesWithPlainRounds) {
  Example example("abc");
  std::uint32_t draw = 0;
  const auto next = [&draw] { return philox4x32(1, {draw++, 0, 0, 0})[0]; };
  while (example.merges.size() < 60) {
    const std::string left = example.tokens[next() % example.tokens.size()].first;
    const std::string right = example.tokens[next() % example.tokens.size()].first;
    const bool known = std::ranges::any_of(example.merges, [&](const Merge& merge) {
      return merge.left == example.id(left) && merge.right == example.id(right);
    });
    if (!known && left.size() + right.size() <= 6) example.merge(left, right);
  }
  const BytePairs pairs = example.pairs();
  for (int i = 0; i < 2000; ++i) {
    std::string word;
    for (std::uint32_t length = next() % 40; word.size() < length;) word += "abc"[next() % 3];
    std::vector<TokenId> ids;
    pairs.encode(word, ids);
    ASSERT_EQ(ids, example.plain(word)) << word;
  }
}

TEST(BytePairs, CharactersAndWhatStandsAroundThem) {
  const TokenMap tokens = {{"é", 0},      {"##b", 1},    {"éb", 2},    {"##b</w>", 3},
                           {"éb</w>", 4}, {"<0xC3>", 5}, {"<0xA0>", 6}};
  const std::vector<Merge> merges = {{0, 3, 4}, {0, 1, 2}};
  const auto encode = [&](const char* word, bool byte_fallback) {
    std::vector<TokenId> ids;
    const BytePairs pairs(tokens, merges,
                          {.unknown = UnknownSymbol{9, true},
                           .byte_fallback = byte_fallback,
                           .continuing_prefix = "##",
                           .end_suffix = "</w>"});
    pairs.encode(word, ids);
    return ids;
  };
  EXPECT_EQ(encode("éb", false), (std::vector<TokenId>{4}));
  EXPECT_EQ(encode("ébb", false), (std::vector<TokenId>{2, 3}));
  EXPECT_EQ(encode("àéb", false), (std::vector<TokenId>{9, 3})) << "##é is none: à and é are one";
  EXPECT_EQ(encode("àb", true), (std::vector<TokenId>{5, 6, 3}));
}

TEST(BytePairs, APieceThatIsATokenIsThatOneIfAsked) {
  Example example = Example("abc").merge("a", "b");
  example.tokens.emplace_back("abc", 9);
  std::vector<TokenId> ids;
  const TokenMap tokens(example.tokens.begin(), example.tokens.end());
  BytePairs(tokens, example.merges, {.bytes = true, .whole_first = true}).encode("abc", ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{9}));
}

TEST(BytePairs, UnknownSymbols) {
  const Example example = Example("ab").merge("a", "b");
  const auto encode = [&](std::optional<UnknownSymbol> unknown) {
    std::vector<TokenId> ids;
    example.pairs(unknown).encode("xxabyaxb", ids);
    return ids;
  };
  EXPECT_EQ(encode(UnknownSymbol{7, false}), (std::vector<TokenId>{7, 7, 2, 7, 0, 7, 1}));
  EXPECT_EQ(encode(UnknownSymbol{7, true}), (std::vector<TokenId>{7, 2, 7, 0, 7, 1}));
  EXPECT_EQ(encode(std::nullopt), (std::vector<TokenId>{2, 2}));
}

TEST(BytePairs, AMillionLettersTakeLessThanTwoSeconds) {
  const Example example =
      Example("abc").merge("a", "b").merge("ab", "c").merge("abc", "abc").merge("c", "c");
  std::string word;
  while (word.size() < 1000000)
    word += "abc"[philox4x32(2, {static_cast<std::uint32_t>(word.size()), 0, 0, 0})[0] % 3];
  const BytePairs pairs = example.pairs();
  std::vector<TokenId> ids;
  const auto start = std::chrono::steady_clock::now();
  pairs.encode(word, ids);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 2);
  std::string back;
  for (const TokenId id : ids) back += example.tokens[static_cast<std::size_t>(id)].first;
  EXPECT_EQ(back, word);
}

TEST(BytePairs, ThreadsShareOne) {
  const Example example = Example("ab").merge("a", "b").merge("ab", "a").merge("b", "b");
  const BytePairs pairs = example.pairs();
  const std::string word = "abbaabbabababbbaabab";
  std::vector<std::vector<TokenId>> results(4);
  {
    std::vector<std::jthread> threads;
    for (auto& ids : results) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) {
          ids.clear();
          pairs.encode(word, ids);
        }
      });
    }
  }
  for (const auto& ids : results) EXPECT_EQ(ids, example.plain(word));
}

}  // namespace
}  // namespace ssa
