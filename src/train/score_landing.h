// Moving the parameters of a score from where they begin to a target, while the model is trained.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "config/config.h"
#include "model/model.h"

namespace ssa {

/// Whether the schedule owns the score's parameters in update number `step` (from 0), so that no
/// gradient moves them.
bool is_landing(const TrainConfig& config, std::int64_t step);

/// [layer][parameter of the score]: (heads) or (1), float32.
using ScoreValues = std::vector<std::vector<torch::Tensor>>;

/// Where the model's stand.
ScoreValues score_values(const Model& model);

/// What the parameters are given before update number `step`: from `begin` in step 0 to
/// train.score_landing in step train.score_landing_steps, from which on they train. A score that
/// contains softmax goes evenly in its distance from it (SoftmaxLimit's coordinate: 1/n of ssa,
/// with n·b going evenly too); others evenly in their values. Each head goes its own way. Nothing
/// after that, or without a landing. In the form that Model::set_score_parameters takes, by layer.
std::optional<std::vector<std::vector<std::vector<double>>>> landing_values(
    const Config& config, const ScoreValues& begin, std::int64_t step);

}  // namespace ssa
