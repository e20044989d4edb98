#include "tokenizer/vocabulary.h"

#include <fmt/format.h>

namespace ssa {

Vocabulary Vocabulary::read(const JsonNode& object) {
  Vocabulary vocabulary;
  for (const auto& [token, node] : object.members()) {
    if (!vocabulary.add(token, node.id())) {
      node.refuse(fmt::format("id {} is given twice", node.id()));
    }
  }
  if (vocabulary.count() == 0) object.refuse("is empty");
  return vocabulary;
}

bool Vocabulary::add(std::string token, TokenId id) {
  const auto place = static_cast<std::size_t>(id);
  if (place >= tokens_.size()) tokens_.resize(place + 1);
  if (tokens_[place] != nullptr) return false;
  // Of a token that is there twice (in a Unigram), the last id counts; each id has its token.
  tokens_[place] = &ids_.insert_or_assign(std::move(token), id).first->first;
  return true;
}

std::optional<TokenId> Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string* Vocabulary::token(TokenId id) const {
  const auto place = static_cast<std::size_t>(id);
  return id < 0 || place >= tokens_.size() ? nullptr : tokens_[place];
}

}  // namespace ssa
