#include "tokenizer/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>

#include "tokenizer/unicode.h"

namespace ssa {
namespace {

constexpr double kUnknownPenalty = 10;  // below the least likely token, as SentencePiece has it
constexpr std::size_t kUnset = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kLongPiece = 10000;

}  // namespace

/// The likeliest way to a place in the text.
struct Unigram::Best {
  double score = 0;
  std::size_t begin = kUnset;  ///< of its last token
  TokenId id = kNone;
};

Unigram::Unigram(const Vocabulary& vocabulary, std::vector<double> scores, const Options& options)
    : vocabulary_(vocabulary), scores_(std::move(scores)), options_(options), ends_(1, kNone) {
  edges_.assign(2, {kNoKey, 0});
  shift_ = 63;
  for (const auto& [token, id] : vocabulary.ids()) {
    std::uint32_t node = 0;
    for (const char byte : token) node = add_child(node, byte);
    ends_[node] = id;
  }
  if (!scores_.empty()) unknown_score_ = std::ranges::min(scores_) - kUnknownPenalty;
  if (!options.byte_fallback) return;
  byte_ids_.emplace();
  for (std::size_t byte = 0; byte < 256; ++byte) {
    (*byte_ids_)[byte] = vocabulary.find(fmt::format("<0x{:02X}>", byte)).value_or(kNone);
  }
}

std::size_t Unigram::place_of(std::uint64_t key) const {
  std::size_t place = (key * 0x9E3779B97F4A7C15) >> shift_;  // Fibonacci hash, as in BytePairs
  while (edges_[place].key != key && edges_[place].key != kNoKey) {
    place = (place + 1) & (edges_.size() - 1);
  }
  return place;
}

/// 0, which is the root and nobody's child, where there is none.
std::uint32_t Unigram::child(std::uint32_t node, char byte) const {
  const Edge& edge = edges_[place_of(std::uint64_t{node} << 8 | static_cast<unsigned char>(byte))];
  return edge.key == kNoKey ? 0 : edge.node;
}

std::uint32_t Unigram::add_child(std::uint32_t node, char byte) {
  if (2 * ends_.size() >= edges_.size()) grow();
  Edge& edge = edges_[place_of(std::uint64_t{node} << 8 | static_cast<unsigned char>(byte))];
  if (edge.key == kNoKey) {
    edge = {std::uint64_t{node} << 8 | static_cast<unsigned char>(byte),
            static_cast<std::uint32_t>(ends_.size())};
    ends_.push_back(kNone);
  }
  return edge.node;
}

void Unigram::grow() {
  std::vector<Edge> old(4 * edges_.size(), {kNoKey, 0});
  old.swap(edges_);
  shift_ = 64 - std::countr_zero(edges_.size());
  for (const Edge& edge : old) {
    if (edge.key != kNoKey) edges_[place_of(edge.key)] = edge;
  }
}

/// One token, or what stands for a text that is none.
void Unigram::append(std::string_view text, std::vector<TokenId>& ids) const {
  if (const auto id = vocabulary_.find(text)) {
    ids.push_back(*id);
    return;
  }
  const auto has_id = [&](char c) { return (*byte_ids_)[static_cast<unsigned char>(c)] != kNone; };
  if (byte_ids_ && std::ranges::all_of(text, has_id)) {
    for (const char c : text) ids.push_back((*byte_ids_)[static_cast<unsigned char>(c)]);
    return;
  }
  ids.push_back(options_.unknown.value());
}

void Unigram::encode(std::string_view piece, std::vector<TokenId>& ids) const {
  thread_local std::vector<Best> best;
  best.assign(piece.size() + 1, {});
  const auto offer = [](Best& place, const Best& other) {
    if (place.begin == kUnset || other.score > place.score) place = other;
  };
  for (std::size_t at = 0; at < piece.size();) {
    const double so_far = best[at].score;
    const std::size_t character = first_code_point(piece.substr(at)).length;
    bool has_single = false;
    std::uint32_t node = 0;
    for (std::size_t end = at; end < piece.size();) {
      node = child(node, piece[end++]);
      if (node == 0) break;
      const TokenId id = ends_[node];
      if (id == kNone) continue;
      offer(best[end], {scores_[static_cast<std::size_t>(id)] + so_far, at, id});
      has_single = has_single || end - at == character;
    }
    if (!has_single) {
      if (!options_.unknown) {
        throw std::runtime_error(fmt::format(
            "\"{}\" is not in the vocabulary, which has no token for unknown characters",
            piece.substr(at, character)));
      }
      offer(best[at + character], {unknown_score_ + so_far, at, *options_.unknown});
    }
    at += character;
  }
  // Unknown ones that follow each other are one.
  thread_local std::vector<TextRange> cuts;
  cuts.clear();
  bool after_unknown = false;
  for (std::size_t end = piece.size(); end > 0;) {
    const auto& [score, begin, id] = best[end];
    const bool unknown = options_.unknown && id == *options_.unknown;
    if (unknown && after_unknown) {
      cuts.back().begin = begin;
    } else {
      cuts.push_back({begin, end});
    }
    after_unknown = unknown;
    end = begin;
  }
  for (auto cut = cuts.rbegin(); cut != cuts.rend(); ++cut) {
    append(piece.substr(cut->begin, cut->end - cut->begin), ids);
  }
  if (piece.size() > kLongPiece) best = {};
}

}  // namespace ssa
