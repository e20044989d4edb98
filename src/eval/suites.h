// The list of evaluation suites: what `ssa eval --suite` and an experiment's `evaluations` choose
// from. How each is run stands in src/cli/eval_*.cc.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace ssa {

struct SuiteInfo {
  const char* name;
  const char* help;   ///< a few words
  const char* tasks;  ///< what the names of its runs' tasks begin with
  const char* data;   ///< its files, below the folder of find_data; null: none that it needs
  std::array<std::string_view, 5> options;  ///< keys of [evaluation] that are its flags

  bool is_for(std::string_view task) const { return task.starts_with(tasks); }
  bool takes(std::string_view option) const {
    return std::ranges::find(options, option) != options.end();
  }
};

inline constexpr SuiteInfo kSuites[] = {
    {"icl-shift",
     "in-context tasks under shifts",
     "icl-",
     nullptr,
     {"grid", "sequences", "data_seed", "sampler", "huge_position"}},
    {"ppl", "perplexity of texts", "lm", nullptr, {"precision", "texts", "lengths", "stride"}},
    {"zero-shot", "multiple-choice tasks", "lm", nullptr, {"precision", "tasks", "items"}},
    {"zorro",
     "Zorro by the mean cross-entropy of whole sentences",
     "mlm",
     "zorro/sentences",
     {"precision"}},
    {"zorro-mlm", "Zorro by pseudo-log-likelihood", "mlm", "zorro/sentences", {"precision"}},
    {"blimp", "BLiMP by log-likelihood", "lm", "tasks/blimp", {"precision"}},
    {"blimp-mlm", "BLiMP by pseudo-log-likelihood", "mlm", "tasks/blimp", {"precision"}},
};

/// The suite of that name, or null.
constexpr const SuiteInfo* find_suite(std::string_view name) {
  for (const SuiteInfo& suite : kSuites) {
    if (name == suite.name) return &suite;
  }
  return nullptr;
}

}  // namespace ssa
