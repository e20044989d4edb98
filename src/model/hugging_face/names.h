// Our weights under the names and in the layouts of Hugging Face's classes.
#pragma once

#include <torch/types.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"

namespace ssa {

using NamedWeights = std::vector<std::pair<std::string, torch::Tensor>>;
/// A part of our names and what stands for it in theirs.
using NamePart = std::pair<std::string_view, std::string_view>;

/// Of Llama's classes, and of those that name their weights alike.
std::vector<NamePart> llama_names();

/// With the first occurrence of each part replaced, in the order of `parts`.
NamedWeights renamed(const NamedWeights& weights, std::span<const NamePart> parts);

/// As torch's Linear has them instead of GPT-2's Conv1D: outputs first, and c_attn in three, whose
/// names have `query_key_value` for ".c_attn.". All are views.
NamedWeights with_torch_linears(const NamedWeights& weights, const ModelConfig& config,
                                std::span<const std::string_view> query_key_value);

}  // namespace ssa
