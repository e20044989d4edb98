// The list of evaluation suites: what `ssa eval --suite` and an experiment's `evaluations` choose
// from. Their options stand in eval/options.h; how each kind is run, in src/cli/eval_*.cc.
#pragma once

#include <string_view>

#include "eval/options.h"

namespace ssa {

struct SuiteInfo {
  const char* name;
  const char* help;   ///< a few words
  SuiteKind kind;     ///< says which options it has
  const char* tasks;  ///< what the names of its runs' tasks begin with
  const char* data;   ///< its files, below the folder of find_data; null: none that it needs

  bool is_for(std::string_view task) const { return task.starts_with(tasks); }
};

inline constexpr SuiteInfo kSuites[] = {
    {"icl-shift", "in-context tasks under shifts", SuiteKind::icl_shift, "icl-", nullptr},
    {"ppl", "perplexity of texts", SuiteKind::perplexity, "lm", nullptr},
    {"zero-shot", "multiple-choice tasks", SuiteKind::choices, "lm", nullptr},
    {"zorro", "Zorro by the mean cross-entropy of whole sentences", SuiteKind::minimal_pairs, "mlm",
     "zorro/sentences"},
    {"zorro-mlm", "Zorro by pseudo-log-likelihood", SuiteKind::minimal_pairs, "mlm",
     "zorro/sentences"},
    {"blimp", "BLiMP by log-likelihood", SuiteKind::minimal_pairs, "lm", "tasks/blimp"},
    {"blimp-mlm", "BLiMP by pseudo-log-likelihood", SuiteKind::minimal_pairs, "mlm", "tasks/blimp"},
};

/// The suite of that name, or null.
constexpr const SuiteInfo* find_suite(std::string_view name) {
  for (const SuiteInfo& suite : kSuites) {
    if (name == suite.name) return &suite;
  }
  return nullptr;
}

}  // namespace ssa
