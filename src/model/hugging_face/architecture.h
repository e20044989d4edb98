// Architectures of Hugging Face: one file each has its names of weights and reads and writes its
// config.json; architecture.cc has their list.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"
#include "model/hugging_face/names.h"
#include "model/hugging_face/reader.h"

namespace ssa {

/// config.json of a class that computes what a model does, or why there is none.
struct HuggingFaceConfig {
  Json config;          ///< null where there is none
  std::string why_not;  ///< "" where there is one
};

struct Architecture {
  Family family;
  /// What config.json may have as model_type, with the beginning of its classes' names.
  std::vector<std::pair<std::string_view, std::string_view>> types;
  /// Before the names of weights of the inner model; checkpoints of that model alone lack it.
  std::string_view base;
  /// Parts of our names and what stands for them.
  std::vector<NamePart> names;
  /// What stands for ".c_attn." in the names of query, key and value where they are three weights
  /// with outputs first (names.h); empty: they are as ours.
  std::vector<std::string_view> query_key_value;
  /// Second copies of weights that a file may hold, each with the weight it must be equal to.
  std::vector<std::pair<std::string_view, std::string_view>> copies;
  /// Beginnings of the names of heads that this program has no use for.
  std::vector<std::string_view> unused;
  /// Whether embeddings are tied where config.json does not say it.
  bool tied;
  /// What is this architecture's own, of a config.json of that model_type.
  ModelConfig (*read)(const ConfigReader& in, const std::string& type);
  /// Writes what is its own; says why where no class of it computes what the model does, else "".
  std::string (*write)(const ModelConfig& model, Json& config);
};

/// All of them, one a family but for number.
std::span<const Architecture> architectures();

// In their files.
Architecture gpt2_architecture();
Architecture nemotron_architecture();
Architecture llama_architecture();
Architecture roberta_architecture();
Architecture bert_architecture();

/// Null for models of numbers, which Hugging Face has not.
const Architecture* architecture_of(Family family);

/// Our weights under the names of the model's family; their layouts are views. As they are for
/// models of numbers.
NamedWeights names_in_files(const NamedWeights& weights, const ModelConfig& model);

/// config.json of the class whose from_pretrained reads this model's checkpoints.
HuggingFaceConfig hugging_face_config(const ModelConfig& model);

/// The model that computes the same as the class that config.json describes, with the score that
/// hugging_face_config wrote, else softmax. Throws std::runtime_error naming the file, the field
/// and what is supported where it asks for anything else; a field that is neither understood nor
/// known to be without effect is refused.
ModelConfig read_hugging_face_config(const std::filesystem::path& file, const Json& config);

}  // namespace ssa
