// The files of checkpoints/step-N/ and the weights in them (docs/formats.md).
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "model/model.h"

namespace ssa {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kTrainerFile = "trainer.safetensors";

/// Reads the weights of a checkpoint folder into the model. Throws std::runtime_error naming the
/// file and what is wrong: a file or weight that is missing, not known, or of another shape or
/// type, or a number that is not finite. Returns the file's metadata.
std::map<std::string, std::string> load_weights(const std::filesystem::path& checkpoint,
                                                Model& model);

}  // namespace ssa
