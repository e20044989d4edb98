#include "tokenizer/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tokenizer/regular_expression.h"
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

/// Whether a character (its bytes) is one of words, to Rust's regular expressions.
bool is_of_word(std::string_view character) {
  static const RegularExpression expression(
      "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}]");
  std::vector<TextRange> matches;
  expression.find(character, matches);
  return !matches.empty();
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0) {
    std::size_t before = begin - 1;
    while ((static_cast<unsigned char>(text[before]) & 0xC0) == 0x80) --before;
    if (is_of_word(text.substr(before, begin - before))) return false;
  }
  return end == text.size() ||
         !is_of_word(text.substr(end, first_code_point(text.substr(end)).length));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) {
  std::ranges::stable_sort(tokens, std::ranges::greater{},
                           [](const AddedToken& token) { return token.content.size(); });
  for (AddedToken& token : tokens) {
    tokens_[static_cast<unsigned char>(token.content.front())].push_back(std::move(token));
  }
}

const AddedToken* AddedTokens::match(std::string_view text) const {
  const auto& tokens = tokens_[static_cast<unsigned char>(text.front())];
  const auto found = std::ranges::find_if(
      tokens, [&](const AddedToken& token) { return text.starts_with(token.content); });
  return found == tokens.end() ? nullptr : &*found;
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
    std::size_t begin = at;
    std::size_t end = at + token->content.size();
    at = end;
    if (token->special && !find_special) continue;
    if (token->single_word && !stands_alone(text, begin, end)) continue;
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

std::vector<AddedToken> read_added_tokens(const JsonNode& list, const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  std::set<std::string> contents;
  auto next = static_cast<TokenId>(vocabulary.count());
  for (const JsonNode& node : list.elements()) {
    node.allow_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken token;
    token.content = node.at("content").text();
    token.id = node.at("id").id();
    token.special = node.at("special").flag();
    token.normalized = node.at("normalized").flag();
    token.single_word = node.at("single_word").flag();
    token.lstrip = node.at("lstrip").flag();
    token.rstrip = node.at("rstrip").flag();
    if (token.content.empty()) node.refuse("\"content\" is empty");
    if (!contents.insert(token.content).second) {
      node.refuse(fmt::format("\"{}\" is there twice", token.content));
    }
    const auto known = vocabulary.find(token.content);
    const TokenId expected = known ? *known : next++;
    if (token.id != expected) {
      node.at("id").refuse(fmt::format("{}: the vocabulary gives \"{}\" the id {}", token.id,
                                       token.content, expected));
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace ssa
