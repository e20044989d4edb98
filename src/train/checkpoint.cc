#include "train/checkpoint.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <stdexcept>

#include "config/fnv1a.h"
#include "files/durable_files.h"
#include "model/hugging_face/architecture.h"
#include "run/checkpoint_files.h"
#include "run/run_folder.h"
#include "run/safetensors.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

template <class Number>
Number metadata_number(const TensorFile& content, const char* key, const fs::path& file) {
  const auto found = content.metadata.find(key);
  Number value{};
  if (found != content.metadata.end()) {
    const std::string& text = found->second;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && stop == text.data() + text.size()) return value;
  }
  throw std::runtime_error(
      fmt::format("{}: its metadata has no number \"{}\"", file.string(), key));
}

/// Tensors "landing_begin.LAYER.NAME".
std::string landing_name(std::size_t layer, std::string_view parameter) {
  return fmt::format("landing_begin.{}.{}", layer, parameter);
}

void save_landing(const ScoreValues& begin, const Model& model, TensorFile& content) {
  const auto& params = find_score(model.config().score).params;
  for (std::size_t layer = 0; layer < begin.size(); ++layer) {
    for (std::size_t i = 0; i < begin[layer].size(); ++i) {
      content.tensors.emplace_back(landing_name(layer, params[i].name), begin[layer][i]);
    }
  }
}

/// Of checkpoints that have it, in the shapes of the model.
ScoreValues load_landing(const TensorFile& content, const Model& model, const fs::path& file) {
  ScoreValues begin = score_values(model);
  const auto& params = find_score(model.config().score).params;
  for (std::size_t layer = 0; layer < begin.size(); ++layer) {
    for (std::size_t i = 0; i < begin[layer].size(); ++i) {
      const std::string name = landing_name(layer, params[i].name);
      const torch::Tensor stored = content.find(name);
      if (!stored.defined()) return {};
      if (stored.sizes() != begin[layer][i].sizes() ||
          stored.scalar_type() != begin[layer][i].scalar_type() ||
          !torch::isfinite(stored).all().item<bool>()) {
        throw std::runtime_error(fmt::format(
            "{}: \"{}\" is not of the model's shape, or not finite", file.string(), name));
      }
      begin[layer][i].copy_(stored);
    }
  }
  return begin;
}

/// What both files of a checkpoint say, so that two halves of different ones are told apart: a hash
/// of the weights and the step (FNV-1a over 8 bytes at a time), the same whenever they are.
std::string identity_of(const std::vector<std::pair<std::string, torch::Tensor>>& weights,
                        std::int64_t step) {
  std::uint64_t hash = kFnvBasis ^ static_cast<std::uint64_t>(step);
  const auto add = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * kFnvPrime;
    hash ^= hash >> 29;
  };
  for (const auto& [name, weight] : weights) {
    const torch::Tensor plain = weight.detach().cpu().contiguous();
    const auto* bytes = static_cast<const char*>(plain.const_data_ptr());
    std::size_t at = 0;
    for (std::uint64_t word = 0; at < plain.nbytes(); at += sizeof(word), word = 0) {
      std::memcpy(&word, bytes + at, std::min(sizeof(word), plain.nbytes() - at));
      add(word);
    }
    add(at);
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace

void save_checkpoint(const fs::path& run_folder, const TrainerState& state, const Model& model,
                     const Optimizer& optimizer) {
  NewFolder folder(checkpoint_folder(run_folder, state.step));
  const auto weights = model.named_weights();
  const std::string id = identity_of(weights, state.step);
  // "format": transformers refuses files that do not say so.
  write_safetensors(folder.path() / kModelFile, {weights, {{"format", "pt"}, {kCheckpointId, id}}});
  const Json hugging_face = hugging_face_config(model.config()).config;
  if (!hugging_face.is_null()) write_json(folder.path() / "config.json", hugging_face);
  TensorFile trainer;
  trainer.metadata = {{"step", std::to_string(state.step)},
                      {"seconds", fmt::format("{}", state.seconds)},
                      {kCheckpointId, id}};
  if (state.step > 0) optimizer.save(trainer);  // before the first step there is nothing to keep
  save_landing(state.landing_begin, model, trainer);
  write_safetensors(folder.path() / kTrainerFile, trainer);
  folder.commit();
}

TrainerState load_checkpoint(const fs::path& checkpoint, Model& model, Optimizer& optimizer) {
  load_weights(checkpoint, model);
  const fs::path file = checkpoint / kTrainerFile;
  const TensorFile content = read_safetensors(file);
  const TrainerState state{metadata_number<std::int64_t>(content, "step", file),
                           metadata_number<double>(content, "seconds", file),
                           load_landing(content, model, file)};
  if (fmt::format("step-{}", state.step) != checkpoint.filename()) {
    throw std::runtime_error(
        fmt::format("{}: it is of step {}, its folder is not", file.string(), state.step));
  }
  require_one_checkpoint(checkpoint);
  if (state.step > 0) optimizer.load(content, state.step, file.string());
  return state;
}

void remove_old_checkpoints(const fs::path& run_folder, std::int64_t keep) {
  const auto steps = checkpoint_steps(run_folder);
  const auto surplus = static_cast<std::int64_t>(steps.size()) - keep;
  if (keep == 0) return;
  for (std::int64_t i = 0; i < surplus; ++i) {
    remove_folder(checkpoint_folder(run_folder, steps[static_cast<std::size_t>(i)]));
  }
}

}  // namespace ssa
