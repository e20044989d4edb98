#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "tokenizer/unicode.h"

namespace ssa {
namespace {

std::size_t leading_space(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const CodePoint point = first_code_point(text.substr(length));
    if (char_class(point.value) != CharClass::space) break;
    length += point.length;
  }
  return length;
}

std::size_t trailing_space(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t begin = end - 1;
    while ((static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    if (char_class(first_code_point(text.substr(begin)).value) != CharClass::space) break;
    end = begin;
  }
  return text.size() - end;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::stable_sort(tokens_, std::ranges::greater{},
                           [](const AddedToken& token) { return token.content.size(); });
  for (const AddedToken& token : tokens_) {
    begins_[static_cast<unsigned char>(token.content.front())] = true;
  }
}

const AddedToken* AddedTokens::match(std::string_view text) const {
  if (!begins_[static_cast<unsigned char>(text.front())]) return nullptr;
  const auto found = std::ranges::find_if(
      tokens_, [&](const AddedToken& token) { return text.starts_with(token.content); });
  return found == tokens_.end() ? nullptr : &*found;
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text, bool find_special) const {
  std::vector<Part> parts;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* token = match(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    if (token->special && !find_special) {
      at += token->content.size();
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + token->content.size();
    at = end;
    // White space that the token before has taken is gone.
    if (token->lstrip && begin > done) begin -= trailing_space(text.substr(done, begin - done));
    if (token->rstrip) end += leading_space(text.substr(end));
    if (begin > done) parts.push_back({text.substr(done, begin - done), std::nullopt});
    parts.push_back({text.substr(begin, end - begin), token->id});
    done = end;
  }
  if (done < text.size()) parts.push_back({text.substr(done), std::nullopt});
  return parts;
}

}  // namespace ssa
