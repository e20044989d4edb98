// The first part of a tokenizer: text becomes other text, before anything is split.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/character_map.h"
#include "tokenizer/json_node.h"
#include "tokenizer/pattern.h"

namespace ssa {

/// In the order of kNames in normalizer.cc.
enum class NormalizerKind {
  bert,
  byte_level,
  lowercase,
  nfc,
  nfd,
  nfkc,
  nfkd,
  nmt,
  precompiled,
  prepend,
  replace,
  strip,
  strip_accents,
};

/// One of them and what its kind reads.
struct NormalizerStep {
  NormalizerKind kind{};
  bool clean_text = false, split_chinese = false, strip_accents = false,
       lowercase = false;                                    ///< bert
  bool left = false, right = false;                          ///< strip
  std::string content;                                       ///< prepend, replace
  std::shared_ptr<const Pattern> pattern = nullptr;          ///< replace
  std::shared_ptr<const CharacterMap> characters = nullptr;  ///< precompiled
};

/// Immutable, so any number of threads may share one.
class Normalizer {
 public:
  Normalizer() = default;

  /// null, one of them, or a Sequence. Throws std::runtime_error naming what is not supported.
  explicit Normalizer(const JsonNode& node);

  bool is_empty() const { return steps_.empty(); }

  /// `text` (valid UTF-8) after all of the steps. `at_start`, whether it begins where the whole
  /// text does, becomes false where its beginning is taken away.
  std::string apply(std::string text, bool& at_start) const;

  /// The kinds' names as in the file, in order.
  std::vector<std::string> names() const;

 private:
  void read(const JsonNode& node);

  std::vector<NormalizerStep> steps_;
};

}  // namespace ssa
