// How the suites of eval/suites.h are run. They come from one file a kind, and eval.cc lists these.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "eval/suites.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace CLI {
class App;
}

namespace ssa {

/// Flags that the suites for models of token ids share.
struct LanguageArguments {
  CLI::App* group;
  std::string precision = "float32";
  std::string end_token;                ///< empty: the vocabulary's own
  std::string special_tokens = "text";  ///< those written in a text: text, or found

  /// The run's tokenizer, whose encode_ordinary() does with special tokens as asked.
  std::unique_ptr<Tokenizer> read_tokenizer(const Config& config) const;
};

struct EvalSuite {
  const SuiteInfo* info;
  std::vector<CLI::App*> groups;  ///< of its flags; those of other groups are refused with it
  /// Refuses bad options before the model is loaded. May let the model read longer sequences
  /// (max_positions) where it has no weights for positions.
  std::function<void(Config&)> check;
  /// Prints what a reader wants to see and returns what evals/NAME.json holds beside what every
  /// evaluation says of its run.
  std::function<Json(const Config&, Model&)> evaluate;
};

using SharedLanguageArguments = std::shared_ptr<const LanguageArguments>;

std::vector<EvalSuite> icl_shift_suites(CLI::App& app);
std::vector<EvalSuite> perplexity_suites(CLI::App& app, const SharedLanguageArguments& language);
std::vector<EvalSuite> zero_shot_suites(CLI::App& app, const SharedLanguageArguments& language);
std::vector<EvalSuite> minimal_pair_suites(CLI::App& app, const SharedLanguageArguments& language);

}  // namespace ssa
