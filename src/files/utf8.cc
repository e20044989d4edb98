#include "files/utf8.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

namespace ssa {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

/// Number of ASCII bytes at the start, counted by eights.
std::size_t ascii_prefix(std::string_view text) {
  std::size_t count = 0;
  for (std::uint64_t eight = 0; count + 8 <= text.size(); count += 8) {
    std::memcpy(&eight, text.data() + count, 8);
    if ((eight & 0x8080808080808080) != 0) break;
  }
  return count;
}

}  // namespace

CodePoint first_code_point(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1, true};
  if (lead < 0xC2 || lead > 0xF4) return {0, 1, false};
  const std::uint8_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // Of the second byte: no overlong forms, no surrogates, nothing above U+10FFFF.
  unsigned char least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t value = lead & (0x7Fu >> length);
  for (std::uint8_t i = 1; i < length; ++i) {
    if (i >= text.size()) return {0, i, false};
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < least || byte > most) return {0, i, false};
    value = value << 6 | (byte & 0x3Fu);
    least = 0x80;
    most = 0xBF;
  }
  return {value, length, true};
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto put = [&text](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto continuation = [&](int shift) { put(0x80 | (code_point >> shift & 0x3F)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    continuation(0);
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    continuation(6);
    continuation(0);
  } else {
    put(0xF0 | code_point >> 18);
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  for (std::size_t at = ascii_prefix(text); at < text.size();) {
    const CodePoint point = first_code_point(text.substr(at));
    if (!point.valid) return at;
    at += point.length;
    if (point.length == 1) at += ascii_prefix(text.substr(at));
  }
  return std::nullopt;
}

void check_utf8(std::string_view text) {
  if (const auto bad = find_invalid_utf8(text)) {
    throw std::invalid_argument(fmt::format("byte {} (0x{:02x}) is not valid UTF-8", *bad + 1,
                                            static_cast<unsigned char>(text[*bad])));
  }
}

std::string replace_invalid_utf8(std::string text) {
  std::optional<std::size_t> bad = find_invalid_utf8(text);
  if (!bad) return text;
  std::string out;
  std::string_view rest = text;
  for (; bad; bad = find_invalid_utf8(rest)) {
    out += rest.substr(0, *bad);
    append_utf8(out, kReplacement);
    rest.remove_prefix(*bad + first_code_point(rest.substr(*bad)).length);
  }
  return out += rest;
}

}  // namespace ssa
