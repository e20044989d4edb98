// Fields of config.json that several architectures have.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "config/config.h"
#include "model/hugging_face/reader.h"

namespace ssa {

/// Hugging Face's name of an activation of ours, and the other way round.
std::string hugging_face_activation(Activation activation);
Activation read_activation(const ConfigReader& in, std::string_view key);

/// Layers, heads, width and mlp_width, which most classes name alike.
void read_sizes(const ConfigReader& in, ModelConfig& model);
void write_sizes(const ModelConfig& model, Json& config);

/// What BERT's encoders have in common: all but the preset, padding and positions.
ModelConfig read_encoder(const ConfigReader& in);
/// The same of the class `name` with its model_type; says why where it cannot hold the model.
std::string write_encoder(const ModelConfig& model, std::string_view name, std::string_view type,
                          Json& config);

/// One dropout for everything. Throws std::runtime_error where the fields differ.
double read_dropout(const ConfigReader& in, std::initializer_list<std::string_view> keys,
                    double otherwise);

/// The score: "attn_implementation" and the fields that hugging_face/architecture.cc writes with
/// it.
void read_score(const ConfigReader& in, ModelConfig& model);
/// Nothing for softmax, which every class of Hugging Face computes; "attn_implementation" for
/// others, so that from_pretrained refuses the checkpoint where python/ssa_attention/hf.py is not
/// imported.
void write_score(const ModelConfig& model, Json& config);

/// Rotary positions: rope_parameters of transformers 5, or rope_theta, rope_scaling and
/// partial_rotary_factor of older ones. `share`: of a head's dimensions, where none is given.
void read_rotary(const ConfigReader& in, ModelConfig& model, double share);
void write_rotary(const ModelConfig& model, Json& config);

/// The reason of the first that does not hold; "" if all hold.
std::string first_failed(std::initializer_list<std::pair<bool, std::string>> conditions);

}  // namespace ssa
