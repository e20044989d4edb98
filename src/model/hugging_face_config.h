// A model as Hugging Face's config.json describes it.
#pragma once

#include <filesystem>

#include "config/config.h"

namespace ssa {

/// The softmax model that computes the same: of model_type gpt2, nemotron or roberta. Throws
/// std::runtime_error naming the file, the key and what is supported where it asks for anything
/// else.
ModelConfig read_hugging_face_config(const std::filesystem::path& file, const Json& config);

}  // namespace ssa
