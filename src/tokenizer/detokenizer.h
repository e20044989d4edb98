// The last part of a tokenizer (the file's "decoder"): tokens become text again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizer/json_node.h"
#include "tokenizer/pattern.h"

namespace ssa {

/// In the order of kNames in detokenizer.cc.
enum class DetokenizerKind {
  byte_pairs,
  byte_fallback,
  byte_level,
  fuse,
  metaspace,
  replace,
  strip,
  word_piece,
};

/// One of them and what its kind reads.
struct DetokenizerStep {
  DetokenizerKind kind{};
  std::string text;  ///< byte_pairs: the suffix; metaspace, strip: the character; replace: what
                     ///< for; word_piece: the prefix
  bool drop_first = false;                           ///< metaspace: no space before the first token
  std::size_t start = 0, stop = 0;                   ///< strip: how many at most
  bool clean_up = false;                             ///< word_piece
  std::shared_ptr<const Pattern> pattern = nullptr;  ///< replace
};

/// Immutable, so any number of threads may share one.
class Detokenizer {
 public:
  /// null, one of them, or a Sequence. Throws std::runtime_error naming what is not supported.
  explicit Detokenizer(const JsonNode& node);

  /// Without a step, the tokens with spaces between them.
  std::string join(std::vector<std::string> tokens) const;

  /// The kinds' names as in the file, in order.
  std::vector<std::string> names() const;

 private:
  void read(const JsonNode& node);

  bool none_ = true;  ///< null in the file
  std::vector<DetokenizerStep> steps_;
};

}  // namespace ssa
