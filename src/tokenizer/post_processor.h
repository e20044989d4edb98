// The fourth part of a tokenizer: the special tokens that stand around a text.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/json_node.h"
#include "tokenizer/token_id.h"

namespace ssa {

struct PostProcessor {
  std::vector<TokenId> prefix, suffix;
};

/// TemplateProcessing (its "single"), RobertaProcessing, BertProcessing, ByteLevel (which changes
/// offsets alone) or a Sequence of them. `find`: the id of a token. Throws std::runtime_error
/// naming what is not supported.
PostProcessor read_post_processor(
    const JsonNode& node, const std::function<std::optional<TokenId>(std::string_view)>& find);

}  // namespace ssa
