// Trading time for memory in training (Chen et al. 2016, arXiv 1604.06174).
#pragma once

#include <torch/types.h>

#include <functional>

namespace ssa {

/// part(input), of which nothing but the input is kept: the backward pass computes it again, with
/// the same random numbers of the CPU's generator and autocast. Gradients of parameters that `part`
/// uses accumulate in them. `input` must need a gradient. Second derivatives are not to be had.
torch::Tensor recomputed(const std::function<torch::Tensor(const torch::Tensor&)>& part,
                         const torch::Tensor& input);

}  // namespace ssa
