// Weights that another program wrote.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/hugging_face/names.h"
#include "model/model.h"

namespace ssa {

/// What one file of a checkpoint holds.
struct ForeignFile {
  std::filesystem::path path;
  NamedWeights tensors;
};

/// Where the parameters of the model's score come from.
enum class ScoreWeights {
  of_files,  ///< they are weights like others
  of_model,  ///< the files are of softmax: they stay as the model has them
};

/// Copies weights under the names of Hugging Face's class for the model, whatever floating-point
/// type they have, from one or several files. What they may have beside weights (causal masks,
/// position ids, a second copy of tied embeddings, which must be equal) is left out; the prefix of
/// the inner model ("transformer.", "model.", …) may be missing; norms may have gamma and beta for
/// weight and bias. Returns the names of the weights of heads that the model has not. Throws
/// std::runtime_error naming the file and the weight that is missing, is not known or has another
/// shape, by its name in the file.
std::vector<std::string> load_foreign_weights(const std::vector<ForeignFile>& files, Model& model,
                                              ScoreWeights score_weights);

}  // namespace ssa
