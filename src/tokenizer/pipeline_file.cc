// Reading tokenizer.json, and vocab.json with merges.txt. Whatever is not understood is an error:
// a field that is passed over would mean other ids.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "files/json.h"
#include "tokenizer/merges.h"
#include "tokenizer/pipeline.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

constexpr const char* kEndOfText = "<|endoftext|>";

Pipeline read_pipeline(const JsonNode& root) {
  // A vocabulary may have words that are called as fields are: GPT-2's has "version" and "model".
  const auto none_or_id = [&](std::string_view field) {
    const JsonNode node = root.find(field);
    return node.is_null() || node.value().is_number();
  };
  if (none_or_id("version") && none_or_id("model")) {
    root.refuse(
        "is no tokenizer.json (it has no \"version\" and \"model\" of one); a vocab.json needs its "
        "merges.txt beside it (--merges, task.merges)");
  }
  root.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer",
                   "pre_tokenizer", "post_processor", "decoder", "model"});
  if (root.at("version").text() != "1.0") root.at("version").refuse_type("\"1.0\"");
  PreTokenizer pre_tokenizer(root.at("pre_tokenizer"));
  ModelPart model = read_model(root.at("model"), pre_tokenizer.ends_in_bytes());
  std::vector<AddedToken> added = read_added_tokens(root.at("added_tokens"), *model.vocabulary);
  const auto find = [&](std::string_view token) -> std::optional<TokenId> {
    for (const AddedToken& one : added) {
      if (one.content == token) return one.id;
    }
    return model.vocabulary->find(token);
  };
  PostProcessor post_processor = read_post_processor(root.at("post_processor"), find);
  const JsonNode truncation = root.find("truncation");
  std::optional<std::int64_t> max_length;
  if (!truncation.is_null()) max_length = truncation.at("max_length").id();
  return Pipeline({.added = std::move(added),
                   .normalizer = Normalizer(root.at("normalizer")),
                   .pre_tokenizer = std::move(pre_tokenizer),
                   .model = std::move(model),
                   .post_processor = std::move(post_processor),
                   .detokenizer = Detokenizer(root.at("decoder")),
                   .max_length = max_length});
}

}  // namespace

Pipeline Pipeline::read(const fs::path& file) {
  const SortedJson content = read_json<SortedJson>(file);
  try {
    return read_pipeline(JsonNode(content, file.string()));
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(fmt::format("{}: {}", file.string(), error.what()));
  }
}

/// The same as a tokenizer.json that says so.
Pipeline Pipeline::read(const fs::path& vocabulary, const fs::path& merges) {
  const SortedJson tokens = read_json<SortedJson>(vocabulary);
  ModelPart model;
  model.vocabulary =
      std::make_shared<Vocabulary>(Vocabulary::read(JsonNode(tokens, vocabulary.string())));
  model.bytes = true;
  const std::vector<Merge> list = read_merges(merges, *model.vocabulary);
  model.merges = list.size();
  model.model = std::make_unique<BytePairs>(tokens_of_bytes(*model.vocabulary), list,
                                            BytePairOptions{.bytes = true});
  std::vector<AddedToken> added;
  if (const auto end = model.vocabulary->find(kEndOfText)) {
    added.push_back({.content = kEndOfText, .id = *end, .special = true});
  }
  const nlohmann::json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  const JsonNode node(byte_level, vocabulary.string());
  return Pipeline({.added = std::move(added),
                   .normalizer = {},
                   .pre_tokenizer = PreTokenizer(node),
                   .model = std::move(model),
                   .post_processor = {},
                   .detokenizer = Detokenizer(node),
                   .max_length = std::nullopt});
}

}  // namespace ssa
