// SentencePiece's tables of what becomes of characters, as tokenizer.json holds them (Precompiled).
// Kudo, Richardson (2018), SentencePiece; Yata, Oda, Mochihashi (2007), double arrays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ssa {

class CharacterMap {
 public:
  /// A double array of the keys, then the texts that they become, each with a zero byte
  /// after it. Throws std::invalid_argument for what is none.
  static CharacterMap of_base64(std::string_view base64);
  static CharacterMap of_bytes(std::string_view bytes);

  /// Throws std::invalid_argument where a walk over the keys would leave the array, or come to no
  /// text: for a library that does not look.
  void check() const;

  /// `text` (valid UTF-8), in which every grapheme of at most five bytes, or else every character,
  /// is what the map makes of it. That is what Hugging Face's tokenizers do: the *shortest* key
  /// with which a part begins decides over all of the part.
  std::string apply(std::string_view text) const;

 private:
  explicit CharacterMap(std::string_view bytes);
  std::optional<std::string_view> find(std::string_view part) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace ssa
