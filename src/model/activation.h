// What stands between the linear layers of an MLP.
#pragma once

#include <torch/types.h>

#include "config/choices.h"

namespace ssa {

/// Of each element: GELU by the error function (Hendrycks, Gimpel 2016, arXiv 1606.08415), in its
/// tanh form, the ReLU, its square (So et al. 2021, arXiv 2109.08668), or x·sigmoid(x).
torch::Tensor activated(const torch::Tensor& values, Activation activation);

}  // namespace ssa
