#include "kernels/target.h"

#include <hwy/highway.h>

#include <cstdlib>
#include <string_view>

#include "ssa/attention.h"
#include "ssa/check.h"

namespace ssa {
namespace {

/// The targets that this build has and this machine runs, one bit each, the best lowest.
std::int64_t available() { return HWY_SUPPORTED_TARGETS & HWY_TARGETS; }

void restrict_to([[maybe_unused]] std::int64_t target) {
#if (HWY_TARGETS & (HWY_TARGETS - 1)) != 0  // with a single one there is no dispatcher, nor libhwy
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(target);
#endif
}

void restrict_from_environment() {
  const char* wanted = std::getenv("SSA_TARGET");
  if (wanted == nullptr || *wanted == '\0') return;
  std::ostringstream choices;
  for (std::int64_t rest = available(); rest != 0; rest &= rest - 1) {
    const std::string_view name = hwy::TargetName(rest & -rest);
    if (name == wanted) return restrict_to(rest & -rest);
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
  return hwy::TargetName(available() & -available());
}

}  // namespace ssa
