// A model as Hugging Face's config.json describes it.
#pragma once

#include <filesystem>
#include <string>

#include "config/config.h"

namespace ssa {

/// Hugging Face's name of an activation of ours.
const char* hugging_face_activation(const std::string& activation);

/// Writes the score and its settings into a config.json, as python/ssa_attention/hf.py reads them:
/// nothing for softmax, which every class of Hugging Face computes; "attn_implementation" for
/// others, so that from_pretrained refuses the checkpoint where that module is not imported.
void write_score(const ModelConfig& model, Json& config);

/// The model that computes the same: of model_type gpt2, nemotron or roberta, with the score that
/// write_score wrote, else softmax. Throws std::runtime_error naming the file, the key and what is
/// supported where it asks for anything else.
ModelConfig read_hugging_face_config(const std::filesystem::path& file, const Json& config);

}  // namespace ssa
