// checkpoints/step-N/: model.safetensors, trainer.safetensors and, for models that Hugging Face has
// too, config.json; complete or not there at all.
#pragma once

#include <cstdint>
#include <filesystem>

#include "model/model.h"
#include "train/optimizer.h"
#include "train/score_landing.h"

namespace ssa {

/// Where training stands, beside the weights. The position in the data is the step, and so is that
/// of dropout: both are pure functions of it.
struct TrainerState {
  std::int64_t step = 0;
  double seconds = 0;  ///< training time so far
  /// Where train.score_landing began; empty without one, or once it is done.
  ScoreValues landing_begin = {};
};

/// Writes the folder under a temporary name, syncs it and renames it. The run folder must be there.
void save_checkpoint(const std::filesystem::path& run_folder, const TrainerState& state,
                     const Model& model, const Optimizer& optimizer);

/// Reads everything save_checkpoint wrote. Throws std::runtime_error naming the file and what is
/// wrong.
TrainerState load_checkpoint(const std::filesystem::path& checkpoint, Model& model,
                             Optimizer& optimizer);

/// Removes all but the newest `keep` checkpoints (0 = keeps all).
void remove_old_checkpoints(const std::filesystem::path& run_folder, std::int64_t keep);

}  // namespace ssa
