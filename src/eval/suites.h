// The list of evaluation suites: what `ssa eval --suite` and an experiment's `evaluations` choose
// from. How each is run stands in src/cli/eval_*.cc.
#pragma once

#include <span>
#include <string_view>

namespace ssa {

struct SuiteInfo {
  const char* name;
  const char* help;   ///< a few words
  const char* tasks;  ///< what the names of its runs' tasks begin with
  const char* data;   ///< its files, below the folder of find_data; null: it draws its own

  bool is_for(std::string_view task) const { return task.starts_with(tasks); }
};

inline constexpr SuiteInfo kSuites[] = {
    {"icl-shift", "in-context tasks under shifts", "icl-", nullptr},
    {"zorro", "Zorro by the mean cross-entropy of whole sentences", "mlm", "zorro/sentences"},
    {"zorro-mlm", "Zorro by pseudo-log-likelihood", "mlm", "zorro/sentences"},
    {"blimp-mlm", "BLiMP by pseudo-log-likelihood", "mlm", "tasks/blimp"},
};

/// The suite of that name, or null.
constexpr const SuiteInfo* find_suite(std::string_view name) {
  for (const SuiteInfo& suite : kSuites) {
    if (name == suite.name) return &suite;
  }
  return nullptr;
}

}  // namespace ssa
