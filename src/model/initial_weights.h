// Initial weights as a pure function of seed and parameter name: a parameter starts the same
// whatever else the model has (another score, more layers, no MLP) and whatever was drawn before.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>

namespace ssa {

/// Overwrites a contiguous floating-point parameter with N(0, deviation²).
void draw_normal(torch::Tensor parameter, const std::string& name, std::uint64_t seed,
                 double deviation);

/// Overwrites a contiguous floating-point parameter with numbers uniform in (−bound, bound).
void draw_uniform(torch::Tensor parameter, const std::string& name, std::uint64_t seed,
                  double bound);

}  // namespace ssa
