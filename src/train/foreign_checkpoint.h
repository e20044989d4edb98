// Weights that another program wrote.
#pragma once

#include <filesystem>

#include "model/model.h"

namespace ssa {

/// Copies the weights of a model.safetensors of Hugging Face's class for the model, whatever
/// floating-point type they have. What their files may have beside weights (causal masks, position
/// ids, a second copy of tied embeddings, which must be equal) is left out; GPT-2's names may lack
/// "transformer.". Throws std::runtime_error naming the file and the weight that is missing, is not
/// known or has another shape.
void load_foreign_weights(const std::filesystem::path& file, Model& model);

}  // namespace ssa
