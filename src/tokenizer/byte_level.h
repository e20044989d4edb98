// The two halves of byte-level pre-tokenisation: words, and characters that stand for bytes.
// Radford, Wu, Child, Luan, Amodei, Sutskever (2019), Language Models are Unsupervised Multitask
// Learners.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace ssa {

/// The character (UTF-8) that stands for each byte in a vocabulary file. Printable characters of
/// Latin-1 stand for themselves, the other 68 bytes are U+0100, U+0101, … in order: a space is Ġ.
const std::array<std::string, 256>& byte_characters();

/// The bytes that a token of a vocabulary stands for; nothing if one of its characters stands for
/// none.
std::optional<std::string> token_bytes(std::string_view token);

/// Every byte of `text` as the character that stands for it.
std::string spell_bytes(std::string_view text);

/// Length of the first word of `text`, which is valid UTF-8 and not empty, by GPT-2's pattern
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// The words of a text are all of it.
std::size_t first_word_length(std::string_view text);

}  // namespace ssa
