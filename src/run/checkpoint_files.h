// The files of checkpoints/step-N/ and the weights in them (docs/formats.md).
#pragma once

#include <filesystem>

#include "model/model.h"

namespace ssa {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kTrainerFile = "trainer.safetensors";
/// Metadata of both files of a checkpoint, the same in both.
inline constexpr const char* kCheckpointId = "checkpoint_id";

/// Reads the weights of a checkpoint folder into the model. Throws std::runtime_error naming the
/// file and what is wrong: a file or weight that is missing, not known, or of another shape or
/// type, or a number that is not finite.
void load_weights(const std::filesystem::path& checkpoint, Model& model);

/// Throws std::runtime_error where the two files are not of one checkpoint. Those of early versions
/// have no id.
void require_one_checkpoint(const std::filesystem::path& checkpoint);

}  // namespace ssa
