#include "tokenizer/byte_pairs.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "ssa/check.h"

namespace ssa {
namespace {

constexpr std::size_t kLongWord = 10000;
constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();

/// A token of the word so far: a link of a list, so that merging is O(1).
struct Link {
  TokenId id;  ///< kNone: merged into the link before
  std::uint32_t before, after;
};

/// Neighbours that may merge, or could when this was noted.
struct Candidate {
  std::uint64_t order;  ///< rank << 32 | position of the left one
  TokenId merged;

  std::uint32_t position() const { return static_cast<std::uint32_t>(order); }
};

bool is_later(const Candidate& a, const Candidate& b) { return a.order > b.order; }

std::uint64_t pair_of(TokenId left, TokenId right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

struct BytePairs::Scratch {
  std::vector<Link> links;
  std::vector<Candidate> heap;
};

BytePairs::BytePairs(const std::array<TokenId, 256>& byte_ids, std::span<const Merge> merges,
                     std::optional<UnknownByte> unknown,
                     std::span<const std::pair<std::string, TokenId>> tokens)
    : byte_ids_(byte_ids), unknown_(unknown) {
  const std::size_t places = std::bit_ceil(2 * merges.size() + 2);
  shift_ = 64 - std::countr_zero(places);
  table_.assign(places, {kNoPair, 0, kNone});
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    insert(merges[rank], static_cast<std::uint32_t>(rank));
  }
  std::vector<TokenId> ids;
  for (const auto& [bytes, id] : tokens) {
    ids.clear();
    merge(bytes, ids);
    if (ids == std::vector{id}) whole_words_.emplace(bytes, id);
  }
}

std::size_t BytePairs::place_of(std::uint64_t pair) const {
  std::size_t place = (pair * 0x9E3779B97F4A7C15) >> shift_;  // 2^64 / golden ratio: Fibonacci hash
  while (table_[place].pair != pair && table_[place].pair != kNoPair) {
    place = (place + 1) & (table_.size() - 1);
  }
  return place;
}

const BytePairs::Entry* BytePairs::find(TokenId left, TokenId right) const {
  const Entry& entry = table_[place_of(pair_of(left, right))];
  return entry.pair == kNoPair ? nullptr : &entry;
}

void BytePairs::insert(const Merge& merge, std::uint32_t rank) {
  const std::uint64_t pair = pair_of(merge.left, merge.right);
  table_[place_of(pair)] = {pair, rank, merge.merged};
}

void BytePairs::encode(std::string_view word, std::vector<TokenId>& ids) const {
  const auto whole = whole_words_.find(word);
  if (whole != whole_words_.end()) {
    ids.push_back(whole->second);
  } else {
    merge(word, ids);
  }
}

void BytePairs::merge(std::string_view word, std::vector<TokenId>& ids) const {
  SSA_CHECK(word.size() < kEnd, "a word of " << word.size() << " bytes: at most " << kEnd - 1);
  thread_local Scratch scratch;  // two allocations a word otherwise
  auto& [links, heap] = scratch;
  links.clear();
  heap.clear();
  bool after_unknown = false;
  for (const char byte : word) {
    TokenId id = byte_ids_[static_cast<unsigned char>(byte)];
    const bool unknown = id == kNone;
    if (unknown) {
      if (!unknown_ || (unknown_->fuse && after_unknown)) continue;
      id = unknown_->id;
    }
    after_unknown = unknown;
    const auto position = static_cast<std::uint32_t>(links.size());
    links.push_back({id, position - 1, position + 1});  // the first one's `before` is kEnd
  }
  if (links.empty()) return;
  links.back().after = kEnd;

  const auto note = [&](std::uint32_t left, std::uint32_t right) {
    const Entry* entry = find(links[left].id, links[right].id);
    if (entry == nullptr) return;
    heap.push_back({std::uint64_t{entry->rank} << 32 | left, entry->merged});
    std::ranges::push_heap(heap, is_later);
  };
  for (std::uint32_t right = 1; right < links.size(); ++right) note(right - 1, right);
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, is_later);
    const Candidate candidate = heap.back();
    heap.pop_back();
    Link& left = links[candidate.position()];
    if (left.id == kNone || left.after == kEnd) continue;
    Link& right = links[left.after];
    const Entry* entry = find(left.id, right.id);
    if (entry == nullptr || entry->merged != candidate.merged) continue;  // they changed meanwhile
    left.id = candidate.merged;
    left.after = right.after;
    right.id = kNone;
    if (left.before != kEnd) note(left.before, candidate.position());
    if (left.after != kEnd) {
      links[left.after].before = candidate.position();
      note(candidate.position(), left.after);
    }
  }
  for (std::uint32_t at = 0; at != kEnd; at = links[at].after) ids.push_back(links[at].id);
  if (links.size() > kLongWord) scratch = {};  // not kept for ever by every thread
}

}  // namespace ssa
