// The third part of a tokenizer: a piece of text becomes ids.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tokenizer/json_node.h"
#include "tokenizer/token_id.h"
#include "tokenizer/vocabulary.h"

namespace ssa {

/// Immutable, so any number of threads may share one.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;

  /// Appends the ids of `piece`, which is valid UTF-8 (or bytes, of a byte-level model) and not
  /// empty. Throws std::runtime_error where a character has no token and the model none that stands
  /// for it.
  virtual void encode(std::string_view piece, std::vector<TokenId>& ids) const = 0;
};

/// In the order of kNames in subword_model.cc.
enum class ModelKind { byte_pairs, word_piece, word_level, unigram };

/// What the file says of the model.
struct ModelPart {
  ModelKind kind{};
  std::shared_ptr<const Vocabulary> vocabulary;  ///< before `model`, which refers to it
  bool bytes = false;                            ///< its pieces are bytes, not characters
  std::size_t merges = 0;
  std::optional<TokenId> unknown;
  std::unique_ptr<const SubwordModel> model;
};

/// The model; `ends_in_bytes`: of the pre-tokenizer. Throws std::runtime_error naming what is not
/// supported.
ModelPart read_model(const JsonNode& node, bool ends_in_bytes);

/// The kind's name as in the file.
std::string_view model_name(ModelKind kind);

}  // namespace ssa
