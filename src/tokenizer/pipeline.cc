#include "tokenizer/pipeline.h"

#include <algorithm>
#include <utility>

#include "ssa/check.h"
#include "tokenizer/unicode.h"

namespace ssa {

Pipeline::Pipeline(PipelineParts parts)
    : parts_(std::move(parts)),
      spell_(!parts_.model.bytes),
      raw_(spelled(false)),
      normalized_(spelled(true)) {
  const Vocabulary& vocabulary = *parts_.model.vocabulary;
  tokens_.resize(static_cast<std::size_t>(vocabulary.size()));
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string* token = vocabulary.token(id);
    if (token != nullptr) tokens_[static_cast<std::size_t>(id)] = {true, false, *token};
  }
  for (const bool normalized : {false, true}) {
    for (const AddedToken& token : spelled(normalized)) {
      const auto place = static_cast<std::size_t>(token.id);
      if (place >= tokens_.size()) tokens_.resize(place + 1);
      tokens_[place] = {true, token.special, token.content};
    }
  }
}

/// The added tokens that are looked for before, or after, normalising, and what they are then.
std::vector<AddedToken> Pipeline::spelled(bool normalized) const {
  std::vector<AddedToken> chosen;
  for (AddedToken token : parts_.added) {
    if (token.normalized != normalized) continue;
    bool at_start = true;
    if (normalized) token.content = parts_.normalizer.apply(token.content, at_start);
    SSA_CHECK(!token.content.empty(), "an added token is nothing after the normalizer");
    chosen.push_back(std::move(token));
  }
  return chosen;
}

std::optional<TokenId> Pipeline::find(std::string_view token) const {
  const auto added = std::ranges::find(parts_.added, token, &AddedToken::content);
  return added != parts_.added.end() ? added->id : parts_.model.vocabulary->find(token);
}

const std::string& Pipeline::name(TokenId id) const {
  const auto added = std::ranges::find(parts_.added, id, &AddedToken::id);
  return added != parts_.added.end() ? added->content : *parts_.model.vocabulary->token(id);
}

std::vector<TokenId> Pipeline::encode(std::string_view text, bool add_special_tokens) const {
  std::vector<TokenId> ids;
  const auto& [prefix, suffix] = parts_.post_processor;
  if (add_special_tokens) ids = prefix;
  encode_parts(text, /*find_special=*/true, ids);
  if (add_special_tokens) ids.insert(ids.end(), suffix.begin(), suffix.end());
  return ids;
}

std::vector<TokenId> Pipeline::encode_ordinary(std::string_view text) const {
  std::vector<TokenId> ids;
  encode_parts(text, /*find_special=*/false, ids);
  return ids;
}

void Pipeline::encode_parts(std::string_view text, bool find_special,
                            std::vector<TokenId>& ids) const {
  check_utf8(text);
  for (const auto& [part, token] : raw_.split(text, find_special)) {
    bool at_start = part.data() == text.data();
    if (token) {
      ids.push_back(*token);
    } else if (parts_.normalizer.is_empty()) {
      encode_normalized({part, at_start}, find_special, ids);
    } else {
      const std::string normalized = parts_.normalizer.apply(std::string(part), at_start);
      encode_normalized({normalized, at_start}, find_special, ids);
    }
  }
}

void Pipeline::encode_normalized(const Piece& text, bool find_special,
                                 std::vector<TokenId>& ids) const {
  for (const auto& [part, token] : normalized_.split(text.text, find_special)) {
    if (token) {
      ids.push_back(*token);
    } else {
      encode_pieces({part, text.at_start && part.data() == text.text.data()}, ids);
    }
  }
}

void Pipeline::encode_pieces(const Piece& text, std::vector<TokenId>& ids) const {
  thread_local Pieces pieces;  // allocations for every text otherwise
  parts_.pre_tokenizer.split(text, spell_, pieces);
  for (const Piece& piece : pieces.list) parts_.model.model->encode(piece.text, ids);
}

std::string Pipeline::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  for (const TokenId id : ids) {
    const auto place = static_cast<std::size_t>(id);
    SSA_CHECK(id >= 0 && place < tokens_.size() && tokens_[place].known,
              "id " << id << " is not in the vocabulary, whose ids end at " << size() - 1);
    const Token& token = tokens_[place];
    if (!(skip_special_tokens && token.special)) tokens.push_back(token.text);
  }
  return parts_.detokenizer.join(std::move(tokens));
}

}  // namespace ssa
