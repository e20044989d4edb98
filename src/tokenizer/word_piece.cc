#include "tokenizer/word_piece.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace ssa {
namespace {

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

WordPiece::WordPiece(const Vocabulary& vocabulary, WordPieceOptions options)
    : first_(vocabulary.ids()), options_(std::move(options)) {
  const std::string& prefix = options_.continuing_prefix;
  for (const auto& [token, id] : first_) {
    longest_ = std::max(longest_, token.size());
    if (token.starts_with(prefix)) later_.emplace(token.substr(prefix.size()), id);
  }
}

void WordPiece::encode(std::string_view piece, std::vector<TokenId>& ids) const {
  const std::size_t kept = ids.size();
  const auto characters = static_cast<std::size_t>(
      std::ranges::count_if(piece, [](char byte) { return !continues_character(byte); }));
  bool known = characters <= options_.longest_word;
  for (std::size_t begin = 0; known && begin < piece.size();) {
    const TokenMap& tokens = begin == 0 ? first_ : later_;
    std::size_t end = std::min(piece.size(), begin + longest_);
    auto found = tokens.end();
    for (; end > begin; --end) {
      if (end < piece.size() && continues_character(piece[end])) continue;
      found = tokens.find(piece.substr(begin, end - begin));
      if (found != tokens.end()) break;
    }
    known = found != tokens.end();
    if (known) ids.push_back(found->second);
    begin = end;
  }
  if (known) return;
  ids.resize(kept);
  ids.push_back(options_.unknown);
}

void WordLevel::encode(std::string_view piece, std::vector<TokenId>& ids) const {
  const auto found = tokens_.find(piece);
  if (found != tokens_.end()) {
    ids.push_back(found->second);
  } else if (unknown_) {
    ids.push_back(*unknown_);
  } else {
    throw std::runtime_error(fmt::format(
        "\"{}\" is not in the vocabulary, which has no token for unknown words", piece));
  }
}

}  // namespace ssa
