// Zero-shot tasks: which of several texts, or which word, a language model finds likeliest. A task
// is a TOML file (configs/zero-shot), so that a new one needs no code.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "config/field.h"
#include "data/text_encoder.h"
#include "eval/likelihood.h"
#include "model/model.h"

namespace ssa {

/// In templates {field} stands for the value of an item's field; {before} and {after} for the parts
/// of `split_field` around `split_at`.
struct ChoiceTask {
  std::string name;
  std::string file;                   ///< of JSON lines, for find_data
  std::vector<std::string> contexts;  ///< one template, or one for each choice
  std::vector<std::string> choices;   ///< templates; a single "{field}" of a list: its elements
  std::string split_field, split_at;  ///< empty: nothing is split
  std::string label;                  ///< field of the right choice; empty: greedy, see below
  /// The label's values in the order of the choices; empty: the label is the number, from 0.
  std::vector<std::string> labels;

  /// Whether the one continuation has to be what the model would write itself (LAMBADA).
  bool greedy() const { return label.empty(); }
};

/// Throws std::runtime_error naming the file, the key and what is right.
ChoiceTask read_choice_task(const std::filesystem::path& file);

/// One item, as the model is asked about it.
struct ChoiceItem {
  std::vector<std::string> contexts;       ///< of each choice
  std::vector<std::string> continuations;  ///< begin with the space that separates them
  std::vector<std::string> texts;          ///< the choices themselves
  std::size_t right = 0;
};

/// The items of JSON lines. Throws std::runtime_error naming file, line and field.
std::vector<ChoiceItem> read_choice_items(const ChoiceTask& task,
                                          const std::filesystem::path& file);

/// Context and continuation are encoded together, the context's trailing spaces belonging to the
/// continuation, and cut where the context by itself ends; an empty context is `begin`
/// (EleutherAI's lm-evaluation-harness, `_encode_pair`).
LikelihoodRequest encode_pair(const TextEncoder& encoder, TokenId begin, std::string context,
                              std::string continuation);

struct ChoiceResult {
  std::string name;
  std::int64_t items = 0;
  /// Right by Σ log p, by that over the choice's characters, and over its bytes; greedy: whether
  /// the word is what the model writes.
  std::int64_t right = 0, right_by_characters = 0, right_by_bytes = 0;
  std::vector<std::int64_t> predictions = {};  ///< how often each choice had the largest Σ log p
  std::vector<std::int64_t> labels = {};       ///< how often each is right
  double chance = 0;                           ///< mean of 1/choices
  double nats = 0;                             ///< greedy: −Σ log p
  std::vector<std::vector<double>> log_probabilities = {};  ///< of each item's choices

  double majority() const;  ///< share of the most frequent label
  bool constant() const;    ///< several labels, but one prediction
};

ChoiceResult evaluate_choices(
    Model& model, const TextEncoder& encoder, TokenId begin, std::int64_t max_positions,
    const ChoiceTask& task, const std::vector<ChoiceItem>& items,
    const std::function<void(std::int64_t done, std::int64_t all)>& report = {});

/// Rows of evals/zero-shot.json, in percent: acc, acc_norm and acc_bytes; acc and perplexity of
/// greedy tasks.
Json to_json(const ChoiceResult& result);

}  // namespace ssa
