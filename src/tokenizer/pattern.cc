#include "tokenizer/pattern.h"

#include <stdexcept>
#include <string>

#include "tokenizer/regular_expression.h"

namespace ssa {
namespace {

class Literal : public Pattern {
 public:
  explicit Literal(std::string text) : text_(std::move(text)) {}

  void find(std::string_view text, std::vector<TextRange>& matches) const override {
    for (std::size_t at = text.find(text_); at != text.npos; at = text.find(text_, at)) {
      matches.push_back({at, at + text_.size()});
      at += text_.size();
    }
  }

 private:
  std::string text_;
};

}  // namespace

std::shared_ptr<const Pattern> read_pattern(const JsonNode& node) {
  node.allow_only({"String", "Regex"});
  const JsonNode literal = node.find("String");
  if (!literal.is_null()) {
    if (literal.text().empty()) literal.refuse("is empty");
    return std::make_shared<Literal>(literal.text());
  }
  const JsonNode expression = node.at("Regex");
  try {
    return std::make_shared<RegularExpression>(expression.text());
  } catch (const std::invalid_argument& error) {
    expression.refuse(error.what());
  }
}

}  // namespace ssa
