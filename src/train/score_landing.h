// Moving the parameters of a score from where they begin to a target, while the model is trained.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config/config.h"
#include "model/model.h"

namespace ssa {

/// Whether the schedule owns the score's parameters in update number `step` (from 0), so that no
/// gradient moves them.
bool is_landing(const TrainConfig& config, std::int64_t step);

/// The values, in the score's order, that its parameters are given before update number `step`:
/// from model.score_initial in step 0 to train.score_landing in step train.score_landing_steps,
/// from which on they train. A score that contains softmax goes evenly in its distance from it
/// (SoftmaxLimit's coordinate: 1/n of ssa, with n·b going evenly too); others evenly in their
/// values. Nothing after that, or without a landing.
std::optional<std::vector<double>> landing_values(const Config& config, std::int64_t step);

/// Throws std::runtime_error where a landing would begin elsewhere than the model stands before its
/// first step: the weights of an imported model may have other values than model.score_initial.
void require_landing_start(const Config& config, const Model& model);

}  // namespace ssa
