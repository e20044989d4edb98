// Which instruction set the fused kernels use.
#pragma once

namespace ssa {

/// Applies SSA_TARGET once, before the first dispatch. Throws std::invalid_argument for a name that
/// this machine or build does not have, listing those it has.
void choose_target();

/// Whether the chosen target has dot products of bfloat16 pairs, so that BFloat16 has kernels of
/// its own.
bool has_bfloat16_products();

/// Tests: whether to use them where the processor has them.
void allow_bfloat16_products(bool allowed);

}  // namespace ssa
