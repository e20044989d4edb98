// Zero-shot tasks: which of several texts, or which word, a language model finds likeliest. A task
// is a TOML file (configs/zero-shot), so that a new one needs no code.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "eval/answer_metric.h"
#include "eval/likelihood.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace ssa {

/// In templates {field} stands for the value of an item's field; {before} and {after} for the parts
/// of `split_field` around `split_at`, {rest} for {after} without white space around it; in
/// `continuation` {choice} for the choice.
struct ChoiceTask {
  static constexpr std::string_view kSection = "task";

  std::string name, file, split_field, split_at, label;
  std::vector<std::string> context, choices, labels, metrics;
  std::string continuation = "{choice}";

  /// Whether the one continuation has to be what the model would write itself (LAMBADA).
  bool greedy() const { return label.empty(); }

  template <class Visit>
  static void fields(Visit&& visit) {
    using C = ChoiceTask;
    visit(Field{.name = "name", .help = "in tables"}, &C::name);
    visit(Field{.name = "file", .help = "JSON lines, for find_data"}, &C::file);
    visit(Field{.name = "context", .help = "a template, or one for each choice"}, &C::context);
    visit(
        Field{.name = "choices", .help = "templates; a single \"{field}\" of a list: its elements"},
        &C::choices);
    visit(Field{.name = "continuation", .help = "template of what is scored after the context"},
          &C::continuation);
    visit(Field{.name = "split_field", .help = "field that {before}, {after}, {rest} come from"},
          &C::split_field);
    visit(Field{.name = "split_at", .help = "what stands between them"}, &C::split_at);
    visit(Field{.name = "label",
                .help = "field of the right choice, or of a list of right ones; "
                        "none: the continuation has to be written"},
          &C::label);
    visit(Field{.name = "labels",
                .help = "the label's values in the order of the choices; none: it "
                        "is the number, from 0"},
          &C::labels);
    visit(Field{.name = "metrics",
                .help = "beside acc: of the predicted choice's words against the right one's, the "
                        "best of several",
                .choices = answer_metric_names()},
          &C::metrics);
  }
};

/// Throws std::runtime_error naming the file, the key and what is right.
ChoiceTask read_choice_task(const std::filesystem::path& file);

/// One item, as the model is asked about it.
struct ChoiceItem {
  std::vector<std::string> contexts;       ///< of each choice
  std::vector<std::string> continuations;  ///< begin with the space that separates them
  std::vector<std::string> texts;          ///< the choices themselves
  std::vector<std::size_t> right;          ///< none of greedy tasks
};

/// The items of JSON lines. Throws std::runtime_error naming file, line and field.
std::vector<ChoiceItem> read_choice_items(const ChoiceTask& task,
                                          const std::filesystem::path& file);

/// Context and continuation are encoded together, the context's trailing white space belonging to
/// the continuation, and cut where the context by itself ends; an empty context is `begin`
/// (EleutherAI's lm-evaluation-harness, `_encode_pair`).
LikelihoodRequest encode_pair(const Tokenizer& tokenizer, TokenId begin, std::string context,
                              std::string continuation);

struct ChoiceResult {
  std::string name;
  bool greedy = false;
  std::int64_t items = 0;
  /// Right by Σ log p, by that over the choice's characters, and over its bytes; greedy: whether
  /// the word is what the model writes.
  std::int64_t right = 0, right_by_characters = 0, right_by_bytes = 0;
  std::vector<std::int64_t> predictions = {};  ///< how often each choice had the largest Σ log p
  std::vector<std::int64_t> labels = {};       ///< how often each is right (the first right one)
  double chance = 0;                           ///< mean of 1/choices
  double nats = 0;                             ///< greedy: −Σ log p
  struct Answers {
    const AnswerMetric* metric;
    double sum = 0, squares = 0;  ///< over items
  };
  std::vector<Answers> answers = {};                      ///< of the task's metrics
  std::vector<std::vector<Likelihood>> likelihoods = {};  ///< of each item's choices

  double majority() const;  ///< share of the most frequent label
  bool constant() const;    ///< several labels, but one prediction
};

ChoiceResult evaluate_choices(
    Model& model, const Tokenizer& tokenizer, TokenId begin, std::int64_t max_positions,
    const ChoiceTask& task, const std::vector<ChoiceItem>& items,
    const std::function<void(std::int64_t done, std::int64_t all)>& report = {});

/// Rows of evals/zero-shot.json, in percent: acc, acc_norm, acc_bytes and the task's metrics; acc
/// and perplexity of greedy tasks.
Json to_json(const ChoiceResult& result);

}  // namespace ssa
