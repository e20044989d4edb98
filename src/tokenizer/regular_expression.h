// The regular expressions of tokenizer.json, which are Oniguruma's (Ruby's syntax), run by PCRE2.
// docs/decisions says why, and what of the syntax is taken.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tokenizer/pattern.h"

namespace ssa {

/// `pattern` of Oniguruma in the words of PCRE2. Throws std::invalid_argument naming what is not
/// known to mean the same in both.
std::string translate_regular_expression(std::string_view pattern);

/// Immutable, so any number of threads may share one.
class RegularExpression : public Pattern {
 public:
  /// Throws std::invalid_argument with what is wrong in the expression.
  explicit RegularExpression(std::string_view pattern);
  ~RegularExpression() override;

  /// Throws std::runtime_error where matching takes more steps or memory than is allowed.
  void find(std::string_view text, std::vector<TextRange>& matches) const override;

 private:
  struct Program;
  std::unique_ptr<const Program> program_;
};

}  // namespace ssa
