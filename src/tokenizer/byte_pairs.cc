#include "tokenizer/byte_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "ssa/check.h"
#include "tokenizer/unicode.h"

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

/// The symbols of a piece as a list of tokens, before any merge.
class BytePairs::Symbols {
 public:
  Symbols(std::vector<Link>& links, const std::optional<UnknownSymbol>& unknown)
      : links_(links), unknown_(unknown) {}

  void add(TokenId id) {
    end_unknown();
    append(id);
  }

  /// Without ending a run of unknown ones, as Hugging Face's tokenizers have it.
  void append(TokenId id) {
    const auto position = static_cast<std::uint32_t>(links_.size());
    links_.push_back({id, position - 1, position + 1});  // the first one's `before` is kEnd
  }

  void add_unknown() {
    if (!unknown_) return;
    if (!unknown_->fuse) end_unknown();
    pending_ = true;
  }

  void end_unknown() {
    if (pending_) append(unknown_->id);
    pending_ = false;
  }

 private:
  std::vector<Link>& links_;
  const std::optional<UnknownSymbol>& unknown_;
  bool pending_ = false;  ///< an unknown one that is not in the list yet
};

BytePairs::BytePairs(TokenMap tokens, std::span<const Merge> merges, BytePairOptions options)
    : tokens_(std::move(tokens)), options_(std::move(options)) {
  const auto id_of = [&](std::string_view token) {
    const auto found = tokens_.find(token);
    return found == tokens_.end() ? kNone : found->second;
  };
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    byte_ids_[byte] = id_of(std::string(1, static_cast<char>(byte)));
    fallback_ids_[byte] = id_of(fmt::format("<0x{:02X}>", byte));
  }
  const std::size_t places = std::bit_ceil(2 * merges.size() + 2);
  shift_ = 64 - std::countr_zero(places);
  table_.assign(places, {kNoPair, 0, kNone});
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    insert(merges[rank], static_cast<std::uint32_t>(rank));
  }
  keep_whole_words();
  if (options_.bytes) tokens_.clear();  // byte_ids_ has what is needed of them
}

/// Those words that become one token, by the merges or at once.
void BytePairs::keep_whole_words() {
  if (options_.whole_first) {
    whole_words_ = tokens_;
    return;
  }
  std::vector<TokenId> ids;
  for (const auto& [token, id] : tokens_) {
    std::string_view word = token;
    if (!word.ends_with(options_.end_suffix)) continue;
    word.remove_suffix(options_.end_suffix.size());
    if (word.empty()) continue;
    ids.clear();
    merge(word, ids);
    if (ids == std::vector{id}) whole_words_.emplace(word, id);
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

void BytePairs::encode(std::string_view piece, std::vector<TokenId>& ids) const {
  const auto whole = whole_words_.find(piece);
  if (whole != whole_words_.end()) {
    ids.push_back(whole->second);
  } else {
    merge(piece, ids);
  }
}

void BytePairs::add_bytes(std::string_view piece, Symbols& symbols) const {
  for (const char byte : piece) {
    const TokenId id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id == kNone) {
      symbols.add_unknown();
    } else {
      symbols.add(id);
    }
  }
}

/// Whether the bytes of the symbol have tokens, which are added then.
bool BytePairs::add_fallback(std::string_view symbol, Symbols& symbols) const {
  const auto id_of = [&](char byte) { return fallback_ids_[static_cast<unsigned char>(byte)]; };
  if (std::ranges::any_of(symbol, [&](char byte) { return id_of(byte) == kNone; })) return false;
  for (const char byte : symbol) symbols.append(id_of(byte));
  return true;
}

void BytePairs::add_characters(std::string_view piece, Symbols& symbols) const {
  const std::size_t whole = piece.size();
  std::string spelled;
  while (!piece.empty()) {
    const std::size_t length = first_code_point(piece).length;
    std::string_view symbol = piece.substr(0, length);
    const bool first = piece.size() == whole, last = length == piece.size();
    if ((!first && !options_.continuing_prefix.empty()) || (last && !options_.end_suffix.empty())) {
      spelled = first ? "" : options_.continuing_prefix;
      spelled += symbol;
      if (last) spelled += options_.end_suffix;
      symbol = spelled;
    }
    const auto found = tokens_.find(symbol);
    if (found != tokens_.end()) {
      symbols.add(found->second);
    } else if (!options_.byte_fallback || !add_fallback(symbol, symbols)) {
      symbols.add_unknown();
    }
    piece.remove_prefix(length);
  }
}

void BytePairs::merge(std::string_view piece, std::vector<TokenId>& ids) const {
  SSA_CHECK(piece.size() < kEnd, "a word of " << piece.size() << " bytes: at most " << kEnd - 1);
  thread_local Scratch scratch;  // two allocations a word otherwise
  auto& [links, heap] = scratch;
  links.clear();
  heap.clear();
  Symbols symbols(links, options_.unknown);
  if (options_.bytes) {
    add_bytes(piece, symbols);
  } else {
    add_characters(piece, symbols);
  }
  symbols.end_unknown();
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
