// The second part of a tokenizer: text is cut into the pieces that the model encodes one by one.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/json_node.h"
#include "tokenizer/pattern.h"

namespace ssa {

/// A part of a text on its way to the model.
struct Piece {
  std::string_view text;
  bool at_start = false;  ///< it begins where the whole text does
};

/// Pieces, and the texts of those that are no longer parts of the text that was given.
struct Pieces {
  std::vector<Piece> list;
  std::vector<Piece> before;  ///< of the step before, while one runs
  std::deque<std::string> texts;
};

/// In the order of kNames in pre_tokenizer.cc.
enum class PreTokenizerKind {
  bert,
  byte_level,
  char_delimiter,
  digits,
  fixed_length,
  metaspace,
  punctuation,
  split,
  whitespace,
  whitespace_split,
};

/// What becomes of what splits a text, in the order of the file's names in pre_tokenizer.cc.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// When Metaspace puts a space before a piece, in the order of the file's names.
enum class PrependScheme { always, first, never };

/// The field "prepend_scheme", and the "add_prefix_space" of early versions.
PrependScheme read_prepend_scheme(const JsonNode& metaspace);

/// One of them and what its kind reads.
struct PreTokenizerStep {
  PreTokenizerKind kind{};
  bool prefix_space = false, by_words = false;       ///< byte_level; by_words: GPT-2's pattern
  std::string character;                             ///< char_delimiter, metaspace
  bool individual = false;                           ///< digits
  std::size_t length = 0;                            ///< fixed_length
  PrependScheme scheme{};                            ///< metaspace
  bool split = false;                                ///< metaspace
  SplitBehavior behavior{};                          ///< punctuation, split
  bool invert = false;                               ///< split
  std::shared_ptr<const Pattern> pattern = nullptr;  ///< split, whitespace
};

/// Immutable, so any number of threads may share one.
class PreTokenizer {
 public:
  PreTokenizer() = default;

  /// null, one of them, or a Sequence. Throws std::runtime_error naming what is not supported.
  explicit PreTokenizer(const JsonNode& node);

  /// Whether a ByteLevel is the last step: its pieces are then left as bytes, unless `spell` of
  /// split() says that the model wants the characters that stand for them.
  bool ends_in_bytes() const;

  /// Makes `pieces.list` the pieces of `text` (valid UTF-8, not empty), none of them empty. They
  /// refer to `text` and to `pieces`. Throws std::runtime_error where a regular expression fails.
  void split(const Piece& text, bool spell, Pieces& pieces) const;

  const std::vector<PreTokenizerStep>& steps() const { return steps_; }

  /// The kinds' names as in the file, in order.
  std::vector<std::string> names() const;

 private:
  void read(const JsonNode& node);

  std::vector<PreTokenizerStep> steps_;
};

}  // namespace ssa
