// How the suites of eval/suites.h are run: a file for each kind, and eval.cc lists them.
#pragma once

#include <memory>

#include "config/config.h"
#include "eval/options.h"
#include "eval/suites.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace ssa {

/// What the user asks for.
struct Evaluation {
  const SuiteInfo* suite;
  EvaluationOptions options;
};

/// The run's tokenizer, whose encode_ordinary() does with special tokens as asked.
std::unique_ptr<Tokenizer> read_tokenizer(const LanguageOptions& options, const Config& config);

// check_… refuses bad options before the model is loaded. It may let the model read longer
// sequences (max_positions) where it has no weights for positions. evaluate_… prints what a reader
// wants to see and returns what evals/NAME.json holds beside what every evaluation says of its run.

void check_shifts(const Evaluation& evaluation, Config& config);
Json evaluate_shifts(const Evaluation& evaluation, const Config& config, Model& model);

void check_perplexity(const Evaluation& evaluation, Config& config);
Json evaluate_perplexity(const Evaluation& evaluation, const Config& config, Model& model);

void check_choices(const Evaluation& evaluation, Config& config);
Json evaluate_choices(const Evaluation& evaluation, const Config& config, Model& model);

void check_pairs(const Evaluation& evaluation, Config& config);
Json evaluate_pairs(const Evaluation& evaluation, const Config& config, Model& model);

}  // namespace ssa
