#include "tasks/task.h"

#include "ssa/check.h"
#include "tasks/icl_task.h"
#include "tasks/language_task.h"
#include "tasks/masked_language_task.h"

namespace ssa {

std::unique_ptr<Task> make_task(const Config& config) {
  switch (config.task.name) {
    case TaskName::icl_every:
    case TaskName::icl_some:
    case TaskName::icl_linear:
      return std::make_unique<InContextTask>(config);
    case TaskName::lm:
      return std::make_unique<LanguageTask>(config);
    case TaskName::mlm:
      return std::make_unique<MaskedLanguageTask>(config);
  }
  SSA_CHECK(false, "a task without a class");
  return nullptr;
}

}  // namespace ssa
