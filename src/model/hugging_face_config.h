// A model as Hugging Face's config.json describes it.
#pragma once

#include <filesystem>
#include <string>

#include "config/config.h"

namespace ssa {

/// Hugging Face's name of an activation of ours.
const char* hugging_face_activation(const std::string& activation);

/// The softmax model that computes the same: of model_type gpt2, nemotron or roberta. Throws
/// std::runtime_error naming the file, the key and what is supported where it asks for anything
/// else.
ModelConfig read_hugging_face_config(const std::filesystem::path& file, const Json& config);

}  // namespace ssa
