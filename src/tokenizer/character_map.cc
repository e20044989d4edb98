#include "tokenizer/character_map.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "tokenizer/unicode.h"

namespace ssa {
namespace {

constexpr std::size_t kLongestGrapheme = 5;  // bytes

std::string decode_base64(std::string_view text) {
  static const auto values = [] {
    std::array<int, 256> table{};
    table.fill(-1);
    constexpr std::string_view kAlphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
      table[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int>(i);
    }
    return table;
  }();
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = values[static_cast<unsigned char>(c)];
    if (value < 0) throw std::invalid_argument("is not base64");
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return bytes;
}

// The units of a double array as the library Darts-clone lays them out.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) == 1; }
std::uint32_t value(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label(std::uint32_t unit) { return unit & (1U << 31 | 0xFF); }
std::uint32_t offset(std::uint32_t unit) { return unit >> 10 << ((unit & 1U << 9) >> 6); }

/// Length of the first grapheme, by the boundaries of Unicode Standard Annex 29.
std::size_t grapheme_length(std::string_view text) {
  CodePoint before = first_code_point(text);
  std::size_t length = before.length;
  utf8proc_int32_t state = 0;
  while (length < text.size()) {
    const CodePoint next = first_code_point(text.substr(length));
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before.value),
                                         static_cast<utf8proc_int32_t>(next.value), &state)) {
      break;
    }
    length += next.length;
    before = next;
  }
  return length;
}

}  // namespace

CharacterMap CharacterMap::of_base64(std::string_view base64) {
  return CharacterMap(decode_base64(base64));
}

CharacterMap CharacterMap::of_bytes(std::string_view bytes) { return CharacterMap(bytes); }

CharacterMap::CharacterMap(std::string_view bytes) {
  std::uint32_t size = 0;
  if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
  if (size == 0 || size % 4 != 0 || size > bytes.size() - sizeof size) {
    throw std::invalid_argument("is no map of characters");
  }
  units_.resize(size / 4);
  std::memcpy(units_.data(), bytes.data() + sizeof size, size);
  texts_ = bytes.substr(sizeof size + size);
  if (!texts_.ends_with('\0') || find_invalid_utf8(texts_)) {
    throw std::invalid_argument("is no map of characters to text");
  }
}

std::optional<std::string_view> CharacterMap::find(std::string_view part) const {
  std::uint32_t place = offset(units_[0]);
  for (const char byte : part) {
    if (byte == '\0') return std::nullopt;
    place ^= static_cast<unsigned char>(byte);
    if (place >= units_.size() || label(units_[place]) != static_cast<unsigned char>(byte)) {
      return std::nullopt;
    }
    const std::uint32_t unit = units_[place];
    place ^= offset(unit);
    if (place >= units_.size()) return std::nullopt;
    if (has_leaf(unit)) {
      const std::uint32_t begin = value(units_[place]);
      if (begin >= texts_.size()) return std::nullopt;
      return std::string_view(texts_).substr(begin, texts_.find('\0', begin) - begin);
    }
  }
  return std::nullopt;
}

void CharacterMap::check() const {
  // A step from a node goes to any of the 256 places of its block.
  const auto check_block = [&](std::uint32_t place) {
    if ((place | 0xFF) >= units_.size()) {
      throw std::invalid_argument("its map of characters points outside of itself");
    }
  };
  std::vector<bool> seen(units_.size());
  std::vector<std::uint32_t> nodes = {offset(units_[0])};
  while (!nodes.empty()) {
    const std::uint32_t node = nodes.back();
    nodes.pop_back();
    check_block(node);
    if (seen[node]) continue;  // keys share their ends
    seen[node] = true;
    for (std::uint32_t byte = 1; byte < 256; ++byte) {
      const std::uint32_t place = node ^ byte;
      if (label(units_[place]) != byte) continue;
      const std::uint32_t next = place ^ offset(units_[place]);
      check_block(next);
      if (has_leaf(units_[place]) && value(units_[next]) >= texts_.size()) {
        throw std::invalid_argument("its map of characters has a key without a text");
      }
      nodes.push_back(next);
    }
  }
}

std::string CharacterMap::apply(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view grapheme = text.substr(0, grapheme_length(text));
    text.remove_prefix(grapheme.size());
    if (grapheme.size() <= kLongestGrapheme) {
      if (const auto found = find(grapheme)) {
        out += *found;
        continue;
      }
    }
    for (std::string_view rest = grapheme; !rest.empty();) {
      const std::string_view character = rest.substr(0, first_code_point(rest).length);
      out += find(character).value_or(character);
      rest.remove_prefix(character.size());
    }
  }
  return out;
}

}  // namespace ssa
