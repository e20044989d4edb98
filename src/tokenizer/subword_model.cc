#include "tokenizer/subword_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tokenizer/byte_level.h"
#include "tokenizer/byte_pairs.h"
#include "tokenizer/merges.h"
#include "tokenizer/unigram.h"
#include "tokenizer/word_piece.h"

namespace ssa {
namespace {

constexpr std::string_view kModelNames[] = {"BPE", "WordPiece", "WordLevel", "Unigram"};
constexpr std::size_t kMostCharacters = 1 << 20;

TokenId require(const JsonNode& token, const Vocabulary& vocabulary) {
  const auto id = vocabulary.find(token.text());
  if (!id) token.refuse(fmt::format("\"{}\" is not in the vocabulary", token.text()));
  return *id;
}

/// The text of a field that may be missing.
std::string text_or_nothing(const JsonNode& node) { return node.is_null() ? "" : node.text(); }
bool flag_or_false(const JsonNode& node) { return !node.is_null() && node.flag(); }

void read_byte_pairs(const JsonNode& node, bool ends_in_bytes, ModelPart& part) {
  node.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix",
                   "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab",
                   "merges"});
  const JsonNode dropout = node.find("dropout");
  if (!dropout.is_null() && dropout.number() != 0) {
    dropout.refuse(
        fmt::format("{} is not supported; supported: null or 0.0", dropout.value().dump()));
  }
  auto vocabulary = std::make_shared<Vocabulary>(Vocabulary::read(node.at("vocab")));
  BytePairOptions options{
      .whole_first = flag_or_false(node.find("ignore_merges")),
      .byte_fallback = flag_or_false(node.find("byte_fallback")),
      .continuing_prefix = text_or_nothing(node.find("continuing_subword_prefix")),
      .end_suffix = text_or_nothing(node.find("end_of_word_suffix"))};
  const JsonNode unknown = node.find("unk_token");
  const bool fuse = flag_or_false(node.find("fuse_unk"));
  if (!unknown.is_null()) {
    part.unknown = require(unknown, *vocabulary);
    options.unknown = UnknownSymbol{*part.unknown, fuse};
  }
  const auto merges = read_merges(node.at("merges"), *vocabulary, options.continuing_prefix.size());
  part.merges = merges.size();
  // What a piece is spelled with must then be characters.
  part.bytes = ends_in_bytes && !options.byte_fallback && options.continuing_prefix.empty() &&
               options.end_suffix.empty();
  options.bytes = part.bytes;
  part.model = std::make_unique<BytePairs>(
      part.bytes ? tokens_of_bytes(*vocabulary) : vocabulary->ids(), merges, std::move(options));
  part.vocabulary = std::move(vocabulary);
}

void read_word_piece(const JsonNode& node, ModelPart& part) {
  node.allow_only(
      {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  part.vocabulary = std::make_shared<Vocabulary>(Vocabulary::read(node.at("vocab")));
  part.unknown = require(node.at("unk_token"), *part.vocabulary);
  part.model = std::make_unique<WordPiece>(
      *part.vocabulary,
      WordPieceOptions{.unknown = *part.unknown,
                       .continuing_prefix = node.at("continuing_subword_prefix").text(),
                       .longest_word = node.at("max_input_chars_per_word").count(kMostCharacters)});
}

void read_word_level(const JsonNode& node, ModelPart& part) {
  node.allow_only({"type", "unk_token", "vocab"});
  part.vocabulary = std::make_shared<Vocabulary>(Vocabulary::read(node.at("vocab")));
  part.unknown = part.vocabulary->find(node.at("unk_token").text());
  part.model = std::make_unique<WordLevel>(*part.vocabulary, part.unknown);
}

void read_unigram(const JsonNode& node, ModelPart& part) {
  node.allow_only({"type", "unk_id", "vocab", "byte_fallback"});
  auto vocabulary = std::make_shared<Vocabulary>();
  std::vector<double> scores;
  for (const JsonNode& pair : node.at("vocab").elements()) {
    const auto both = pair.elements();
    if (both.size() != 2) pair.refuse_type("a token and its log-likelihood");
    if (scores.size() >= kMostTokens) pair.refuse("there are too many tokens");
    vocabulary->add(both[0].text(), static_cast<TokenId>(scores.size()));
    scores.push_back(both[1].number());
  }
  if (scores.empty()) node.at("vocab").refuse("is empty");
  const JsonNode unknown = node.find("unk_id");
  if (!unknown.is_null()) {
    part.unknown = unknown.id();
    if (*part.unknown >= vocabulary->size()) unknown.refuse("no such id");
  }
  const Unigram::Options options{.unknown = part.unknown,
                                 .byte_fallback = flag_or_false(node.find("byte_fallback"))};
  part.model = std::make_unique<Unigram>(*vocabulary, std::move(scores), options);
  part.vocabulary = std::move(vocabulary);
}

}  // namespace

ModelPart read_model(const JsonNode& node, bool ends_in_bytes) {
  ModelPart part;
  // Files of early versions do not name the type of a BPE.
  if (!node.find("type").is_null())
    part.kind = static_cast<ModelKind>(node.type("model", kModelNames));
  switch (part.kind) {
    case ModelKind::byte_pairs:
      read_byte_pairs(node, ends_in_bytes, part);
      break;
    case ModelKind::word_piece:
      read_word_piece(node, part);
      break;
    case ModelKind::word_level:
      read_word_level(node, part);
      break;
    case ModelKind::unigram:
      read_unigram(node, part);
      break;
  }
  return part;
}

std::string_view model_name(ModelKind kind) { return kModelNames[static_cast<std::size_t>(kind)]; }

}  // namespace ssa
