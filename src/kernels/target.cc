#include "kernels/target.h"

#include <hwy/highway.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

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

/// Highway 1.0.3 has no target with bfloat16 products: it is one of ours.
constexpr const char* kWithBfloat16 = "AVX3_BF16";

std::atomic<bool> bfloat16_allowed{true};

bool is_with_bfloat16([[maybe_unused]] std::int64_t target) {
#if HWY_ARCH_X86
  static const bool kProcessorHas = __builtin_cpu_supports("avx512bf16") != 0;
  return target == HWY_AVX3 && kProcessorHas;
#else
  return false;
#endif
}

void restrict_from_environment() {
  const char* wanted = std::getenv("SSA_TARGET");
  if (wanted == nullptr || *wanted == '\0') return;
  std::ostringstream choices;
  const auto offer = [&](const char* name) {
    choices << (choices.tellp() > 0 ? ", " : "") << name;
    return std::string_view(name) == wanted;
  };
  for (std::int64_t rest = available(); rest != 0; rest &= rest - 1) {
    const std::int64_t target = rest & -rest;
    if (is_with_bfloat16(target) && offer(kWithBfloat16)) return restrict_to(target);
    if (offer(hwy::TargetName(target))) {
      bfloat16_allowed = false;
      return restrict_to(target);
    }
  }
  SSA_CHECK(false, "SSA_TARGET=" << wanted << ": this machine has " << choices.str());
}

}  // namespace

void choose_target() {
  static const bool kDone = (restrict_from_environment(), true);
  (void)kDone;
}

bool has_bfloat16_products() {
  choose_target();
  return bfloat16_allowed && is_with_bfloat16(available() & -available());
}

void allow_bfloat16_products(bool allowed) { bfloat16_allowed = allowed; }

const char* kernel_target() {
  return has_bfloat16_products() ? kWithBfloat16 : hwy::TargetName(available() & -available());
}

}  // namespace ssa
