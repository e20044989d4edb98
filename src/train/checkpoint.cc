#include "train/checkpoint.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <charconv>
#include <stdexcept>

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

}  // namespace

void save_checkpoint(const fs::path& run_folder, const TrainerState& state, const Model& model,
                     const Optimizer& optimizer) {
  const fs::path target = checkpoint_folder(run_folder, state.step);
  const fs::path temporary =
      target.parent_path() / fmt::format(".{}.tmp", target.filename().string());
  fs::remove_all(temporary);
  fs::create_directories(temporary);

  // "format": transformers refuses files that do not say so.
  write_safetensors(temporary / kModelFile, {model.named_weights(), {{"format", "pt"}}});
  const Json hugging_face = hugging_face_config(model.config()).config;
  if (!hugging_face.is_null()) write_json(temporary / "config.json", hugging_face);
  TensorFile trainer;
  trainer.metadata = {{"step", std::to_string(state.step)},
                      {"seconds", fmt::format("{}", state.seconds)}};
  if (state.step > 0) optimizer.save(trainer);  // before the first step there is nothing to keep
  write_safetensors(temporary / kTrainerFile, trainer);
  sync_path(temporary);
  replace_folder(temporary, target);
}

TrainerState load_checkpoint(const fs::path& checkpoint, Model& model, Optimizer& optimizer) {
  load_weights(checkpoint, model);
  const fs::path file = checkpoint / kTrainerFile;
  const TensorFile content = read_safetensors(file);
  const TrainerState state{metadata_number<std::int64_t>(content, "step", file),
                           metadata_number<double>(content, "seconds", file)};
  if (fmt::format("step-{}", state.step) != checkpoint.filename()) {
    throw std::runtime_error(
        fmt::format("{}: it is of step {}, its folder is not", file.string(), state.step));
  }
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
