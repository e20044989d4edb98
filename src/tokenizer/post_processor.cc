#include "tokenizer/post_processor.h"

#include <fmt/format.h>

#include <iterator>

namespace ssa {
namespace {

using Find = std::function<std::optional<TokenId>(std::string_view)>;

/// In the order of kPostProcessorNames.
enum class PostProcessorKind { bert, byte_level, roberta, sequence, template_ };

constexpr std::string_view kPostProcessorNames[] = {
    "BertProcessing", "ByteLevel", "RobertaProcessing", "Sequence", "TemplateProcessing"};

TokenId checked(const JsonNode& token, const JsonNode& id, const JsonNode& place,
                const Find& find) {
  if (find(token.text()) != id.id()) {
    place.refuse(fmt::format("\"{}\" does not have the id {}", token.text(), id.id()));
  }
  return id.id();
}

/// [token, id].
TokenId read_pair(const JsonNode& pair, const Find& find) {
  const auto both = pair.elements();
  if (both.size() != 2) pair.refuse_type("a token and its id");
  return checked(both[0], both[1], pair, find);
}

PostProcessor read_template(const JsonNode& node, const Find& find) {
  node.allow_only({"type", "single", "pair", "special_tokens"});
  PostProcessor around;
  bool after_text = false;
  for (const JsonNode& item : node.at("single").elements()) {
    item.allow_only({"Sequence", "SpecialToken"});
    const JsonNode text = item.find("Sequence");
    if (!text.is_null()) {
      if (after_text || text.at("id").text() != "A") text.refuse_type("the text A, once");
      after_text = true;
      continue;
    }
    const JsonNode name = item.at("SpecialToken").at("id");
    const JsonNode token = node.at("special_tokens").at(name.text());
    const auto ids = token.at("ids").elements();
    const auto tokens = token.at("tokens").elements();
    if (ids.size() != tokens.size()) token.refuse("\"ids\" and \"tokens\" differ in length");
    for (std::size_t i = 0; i < ids.size(); ++i) {
      (after_text ? around.suffix : around.prefix)
          .push_back(checked(tokens[i], ids[i], ids[i], find));
    }
  }
  if (!after_text) node.at("single").refuse("the text A is missing");
  return around;
}

/// Each stands around what those before it have made.
PostProcessor read_sequence(const JsonNode& node, const Find& find) {
  node.allow_only({"type", "processors"});
  PostProcessor all;
  for (const JsonNode& part : node.at("processors").elements()) {
    const PostProcessor next = read_post_processor(part, find);
    all.prefix.insert(all.prefix.begin(), next.prefix.begin(), next.prefix.end());
    all.suffix.insert(all.suffix.end(), next.suffix.begin(), next.suffix.end());
  }
  return all;
}

}  // namespace

PostProcessor read_post_processor(const JsonNode& node, const Find& find) {
  if (node.is_null()) return {};
  switch (static_cast<PostProcessorKind>(node.type("post-processor", kPostProcessorNames))) {
    case PostProcessorKind::template_:
      return read_template(node, find);
    case PostProcessorKind::sequence:
      return read_sequence(node, find);
    case PostProcessorKind::byte_level:
      node.allow_only({"type", "trim_offsets", "add_prefix_space", "use_regex"});
      return {};
    case PostProcessorKind::bert:
      node.allow_only({"type", "sep", "cls"});
      break;
    case PostProcessorKind::roberta:
      node.allow_only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
      break;
  }
  return {{read_pair(node.at("cls"), find)}, {read_pair(node.at("sep"), find)}};
}

}  // namespace ssa
