// Which instruction set the fused kernels use.
#pragma once

namespace ssa {

/// Applies SSA_TARGET once, before the first dispatch. Throws std::invalid_argument for a name that
/// this machine or build does not have, listing those it has.
void choose_target();

}  // namespace ssa
