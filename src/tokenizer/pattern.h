// What splits or replaces parts of a text: where it is found.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "tokenizer/json_node.h"

namespace ssa {

struct TextRange {
  std::size_t begin, end;
};

class Pattern {
 public:
  virtual ~Pattern() = default;

  /// Appends every match in `text` (valid UTF-8), from left to right, none over another.
  virtual void find(std::string_view text, std::vector<TextRange>& matches) const = 0;
};

/// {"String": …}: those very characters; {"Regex": …}: a regular expression.
std::shared_ptr<const Pattern> read_pattern(const JsonNode& node);

}  // namespace ssa
