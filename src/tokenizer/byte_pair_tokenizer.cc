#include "tokenizer/byte_pair_tokenizer.h"

#include <algorithm>
#include <utility>

#include "ssa/check.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/unicode.h"

namespace ssa {
namespace {

BytePairs make_pairs(const TokenizerSpec& spec) {
  std::array<TokenId, 256> byte_ids{};
  for (std::size_t byte = 0; byte < byte_ids.size(); ++byte) {
    const auto found = spec.vocabulary.find(byte_characters()[byte]);
    byte_ids[byte] = found == spec.vocabulary.end() ? BytePairs::kNone : found->second;
  }
  std::vector<std::pair<std::string, TokenId>> tokens;
  for (const auto& [token, id] : spec.vocabulary) {
    if (auto bytes = token_bytes(token)) tokens.emplace_back(*std::move(bytes), id);
  }
  return {byte_ids, spec.merges, spec.unknown, tokens};
}

/// What is looked for in the text, and what the token is decoded into.
std::string spelling(const AddedToken& token, const TokenizerSpec& spec) {
  return token.normalized && spec.lowercase ? lowercase(token.content) : token.content;
}

std::vector<AddedToken> added_tokens(const TokenizerSpec& spec, bool normalized) {
  std::vector<AddedToken> chosen;
  for (AddedToken token : spec.added) {
    if (token.normalized != normalized) continue;
    token.content = spelling(token, spec);
    chosen.push_back(std::move(token));
  }
  return chosen;
}

}  // namespace

std::optional<TokenId> TokenizerSpec::find(std::string_view token) const {
  const auto is_it = std::ranges::find(added, token, &AddedToken::content);
  if (is_it != added.end()) return is_it->id;
  const auto found = vocabulary.find(token);
  if (found == vocabulary.end()) return std::nullopt;
  return found->second;
}

BytePairTokenizer::BytePairTokenizer(TokenizerSpec spec)
    : spec_(std::move(spec)),
      pairs_(make_pairs(spec_)),
      raw_(added_tokens(spec_, false)),
      normalized_(added_tokens(spec_, true)) {
  const auto set = [this](TokenId id, std::string_view token, bool special) {
    const auto place = static_cast<std::size_t>(id);
    if (place >= tokens_.size()) tokens_.resize(place + 1);
    tokens_[place] = {true, special, token_bytes(token).value_or(std::string(token))};
  };
  for (const auto& [token, id] : spec_.vocabulary) set(id, token, false);
  for (const AddedToken& token : spec_.added) set(token.id, spelling(token, spec_), token.special);
}

std::vector<TokenId> BytePairTokenizer::encode(std::string_view text,
                                               bool add_special_tokens) const {
  std::vector<TokenId> ids;
  if (add_special_tokens) ids = spec_.prefix;
  encode_parts(text, true, ids);
  if (add_special_tokens) ids.insert(ids.end(), spec_.suffix.begin(), spec_.suffix.end());
  return ids;
}

std::vector<TokenId> BytePairTokenizer::encode_ordinary(std::string_view text) const {
  std::vector<TokenId> ids;
  encode_parts(text, false, ids);
  return ids;
}

void BytePairTokenizer::encode_parts(std::string_view text, bool find_special,
                                     std::vector<TokenId>& ids) const {
  check_utf8(text);
  for (const auto& [part, token] : raw_.split(text, find_special)) {
    if (token) {
      ids.push_back(*token);
    } else if (spec_.lowercase) {
      encode_normalized(lowercase(part), find_special, ids);
    } else {
      encode_normalized(part, find_special, ids);
    }
  }
}

void BytePairTokenizer::encode_normalized(std::string_view text, bool find_special,
                                          std::vector<TokenId>& ids) const {
  for (const auto& [part, token] : normalized_.split(text, find_special)) {
    if (token) {
      ids.push_back(*token);
    } else if (spec_.add_prefix_space && part.front() != ' ') {
      encode_words(std::string(" ").append(part), ids);
    } else {
      encode_words(part, ids);
    }
  }
}

void BytePairTokenizer::encode_words(std::string_view text, std::vector<TokenId>& ids) const {
  while (!text.empty()) {
    const std::size_t length = spec_.split_words ? first_word_length(text) : text.size();
    pairs_.encode(text.substr(0, length), ids);
    text.remove_prefix(length);
  }
}

std::string BytePairTokenizer::decode(std::span<const TokenId> ids,
                                      bool skip_special_tokens) const {
  SSA_CHECK(spec_.can_decode,
            "decoder: the tokenizer's file has none, so its ids cannot be turned into text: "
            "ByteLevel is what a byte-level BPE needs");
  std::string bytes;
  for (const TokenId id : ids) {
    const auto place = static_cast<std::size_t>(id);
    SSA_CHECK(id >= 0 && place < tokens_.size() && tokens_[place].known,
              "id " << id << " is not in the vocabulary, whose ids end at " << size() - 1);
    const Token& token = tokens_[place];
    if (!(skip_special_tokens && token.special)) bytes += token.bytes;
  }
  return replace_invalid_utf8(std::move(bytes));
}

}  // namespace ssa
