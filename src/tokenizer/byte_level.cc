#include "tokenizer/byte_level.h"

#include <unordered_map>

#include "tokenizer/unicode.h"

namespace ssa {
namespace {

/// Length of the run of characters of `kind` at the start; `last`: that of its last character.
std::size_t run_length(std::string_view text, CharClass kind, std::size_t& last) {
  std::size_t length = 0;
  while (length < text.size()) {
    const CodePoint point = first_code_point(text.substr(length));
    if (char_class(point.value) != kind) break;
    last = point.length;
    length += last;
  }
  return length;
}

}  // namespace

const std::array<std::string, 256>& byte_characters() {
  static const auto table = [] {
    std::array<std::string, 256> characters;
    char32_t next_stand_in = 0x100;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool printable =
          (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      append_utf8(characters[byte], printable ? byte : next_stand_in++);
    }
    return characters;
  }();
  return table;
}

std::optional<std::string> token_bytes(std::string_view token) {
  static const auto bytes = [] {
    std::unordered_map<std::string_view, char> map;
    for (int byte = 0; byte < 256; ++byte) map[byte_characters()[byte]] = static_cast<char>(byte);
    return map;
  }();
  std::string out;
  while (!token.empty()) {
    const std::size_t length = first_code_point(token).length;
    const auto found = bytes.find(token.substr(0, length));
    if (found == bytes.end()) return std::nullopt;
    out += found->second;
    token.remove_prefix(length);
  }
  return out;
}

std::string spell_bytes(std::string_view text) {
  std::string spelled;
  spelled.reserve(2 * text.size());
  for (const char byte : text) spelled += byte_characters()[static_cast<unsigned char>(byte)];
  return spelled;
}

std::size_t first_word_length(std::string_view text) {
  if (text[0] == '\'') {
    for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
      if (text.starts_with(ending)) return ending.size();
    }
  }
  const std::size_t space = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const CharClass kind = char_class(first_code_point(text.substr(space)).value);
  std::size_t last = 0;
  if (kind != CharClass::space) return space + run_length(text.substr(space), kind, last);
  // Blanks before a word, but for the last one, which may belong to it: \s+(?!\S).
  const std::size_t blanks = run_length(text, CharClass::space, last);
  return blanks < text.size() && blanks > last ? blanks - last : blanks;
}

}  // namespace ssa
