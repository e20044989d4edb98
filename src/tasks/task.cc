#include "tasks/task.h"

#include "tasks/icl_task.h"
#include "tasks/language_task.h"
#include "tasks/masked_language_task.h"

namespace ssa {

std::unique_ptr<Task> make_task(const Config& config) {
  if (config.task.name == "lm") return std::make_unique<LanguageTask>(config);
  if (config.task.name == "mlm") return std::make_unique<MaskedLanguageTask>(config);
  return std::make_unique<InContextTask>(config);
}

}  // namespace ssa
