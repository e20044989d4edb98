#include "kernels/target.h"

#include <hwy/highway.h>

#include <cstdlib>
#include <string_view>

#include "ssa/attention.h"
#include "ssa/check.h"

namespace ssa {
namespace {

void restrict_from_environment() {
  const char* wanted = std::getenv("SSA_TARGET");
  if (wanted == nullptr || *wanted == '\0') return;
  std::ostringstream choices;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const std::string_view name = hwy::TargetName(target);
    if (name == wanted) {
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(target);
      return;
    }
    choices << (choices.tellp() > 0 ? ", " : "") << name;
  }
  SSA_CHECK(false, "SSA_TARGET=" << wanted << ": this machine has " << choices.str());
}

}  // namespace

void choose_target() {
  static const bool kDone = (restrict_from_environment(), true);
  (void)kDone;
}

const char* kernel_target() {
  choose_target();
  const std::int64_t available = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(available & -available);
}

}  // namespace ssa
