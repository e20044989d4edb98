#include "run/checkpoint_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <set>
#include <stdexcept>

#include "config/suggestion.h"
#include "run/safetensors.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

/// Throws unless the folder is there with both files: names what is missing.
void require_complete(const fs::path& checkpoint) {
  if (!fs::is_directory(checkpoint)) {
    throw std::runtime_error(
        fmt::format("{}: no such checkpoint{}", checkpoint.string(), did_you_mean(checkpoint)));
  }
  for (const char* name : {kModelFile, kTrainerFile}) {
    if (!fs::is_regular_file(checkpoint / name)) {
      throw std::runtime_error(
          fmt::format("{}: incomplete checkpoint: {} is missing", checkpoint.string(), name));
    }
  }
}

}  // namespace

void load_weights(const fs::path& checkpoint, Model& model) {
  require_complete(checkpoint);
  const fs::path file = checkpoint / kModelFile;
  const TensorFile content = read_safetensors(file);
  const torch::NoGradGuard no_gradient;
  std::set<std::string> known;
  for (auto& [name, weight] : model.named_weights()) {
    known.insert(name);
    const torch::Tensor stored = content.find(name);
    if (!stored.defined()) {
      throw std::runtime_error(
          fmt::format("{}: the model's \"{}\" is not in it", file.string(), name));
    }
    if (stored.sizes() != weight.sizes() || stored.scalar_type() != weight.scalar_type()) {
      throw std::runtime_error(fmt::format(
          "{}: \"{}\" has shape ({}) and type {}, the model's has shape ({}) and type {}",
          file.string(), name, fmt::join(stored.sizes().begin(), stored.sizes().end(), ", "),
          c10::toString(stored.scalar_type()),
          fmt::join(weight.sizes().begin(), weight.sizes().end(), ", "),
          c10::toString(weight.scalar_type())));
    }
    if (stored.is_floating_point() && !torch::isfinite(stored).all().item<bool>()) {
      throw std::runtime_error(
          fmt::format("{}: \"{}\" holds numbers that are not finite", file.string(), name));
    }
    weight.copy_(stored);
  }
  for (const auto& [name, tensor] : content.tensors) {
    if (!known.contains(name)) {
      throw std::runtime_error(
          fmt::format("{}: the model has no weight \"{}\"", file.string(), name));
    }
  }
}

void require_one_checkpoint(const fs::path& checkpoint) {
  const auto id_in = [&](const char* name) {
    const auto metadata = read_safetensors_metadata(checkpoint / name);
    const auto found = metadata.find(kCheckpointId);
    return found == metadata.end() ? "" : found->second;
  };
  if (id_in(kModelFile) == id_in(kTrainerFile)) return;
  throw std::runtime_error(
      fmt::format("{}: is not of the checkpoint that {} beside it is of: their \"{}\" differ",
                  (checkpoint / kTrainerFile).string(), kModelFile, kCheckpointId));
}

}  // namespace ssa
