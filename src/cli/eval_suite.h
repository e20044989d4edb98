// How the suites of eval/suites.h are run. They come from one file a kind, and eval.cc lists these.
#pragma once

#include <functional>
#include <vector>

#include "config/config.h"
#include "eval/suites.h"
#include "model/model.h"

namespace CLI {
class App;
}

namespace ssa {

struct EvalSuite {
  const SuiteInfo* info;
  CLI::App* group;  ///< its flags, refused with suites of another group
  /// Refuses bad options before the model is loaded.
  std::function<void(const Config&)> check;
  /// Prints what a reader wants to see and returns what evals/NAME.json holds beside what every
  /// evaluation says of its run.
  std::function<Json(const Config&, Model&)> evaluate;
};

std::vector<EvalSuite> icl_shift_suites(CLI::App& app);
std::vector<EvalSuite> minimal_pair_suites(CLI::App& app);

}  // namespace ssa
