// Weights that another program wrote.
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "model/model.h"

namespace ssa {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// Copies `tensors`, those of a model.safetensors of Hugging Face's class for the model, whatever
/// floating-point type they have. What their files may have beside weights (causal masks, position
/// ids, a second copy of tied embeddings, which must be equal) is left out; GPT-2's names may lack
/// "transformer.". Throws std::runtime_error naming the file and the weight that is missing, is not
/// known or has another shape.
void load_foreign_weights(const std::filesystem::path& file, const NamedTensors& tensors,
                          Model& model);

}  // namespace ssa
