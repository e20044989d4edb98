#include "train/memory_need.h"

#include <fmt/format.h>

#include <stdexcept>

#include "run/memory.h"

namespace ssa {
namespace {

/// Of weight matrices: vectors do not count.
double weights_of(const ModelConfig& model) {
  const auto width = static_cast<double>(model.width);
  const double keys = static_cast<double>(model.key_value_heads() * model.head_dim());
  double block = 2 * width * width + 2 * width * keys;
  if (model.mlp) block += 2 * width * static_cast<double>(model.hidden_width());
  double all = static_cast<double>(model.layers) * block;
  if (model.positions == Positions::learned)
    all += static_cast<double>(model.max_positions) * width;
  if (model.input == InputKind::tokens) {
    all += static_cast<double>(model.vocabulary) * width * (model.tied ? 1 : 2);
  }
  return all;
}

/// Tokens of a batch, at the least.
double tokens_of(const Config& config) {
  const auto batch = static_cast<double>(config.train.batch);
  if (config.task.name == TaskName::mlm) return batch;
  if (config.task.name != TaskName::lm)
    return 2 * batch * static_cast<double>(config.task.points_end);
  const std::int64_t length = config.task.length;
  return batch * static_cast<double>(length == 0 ? config.model.max_positions : length);
}

struct Need {
  double model, batch;
};

Need need_of(const Config& config) {
  constexpr double kFloat = 4;
  const double weights = 4 * kFloat * weights_of(config.model);  // with gradient and two moments
  // The input of every block's norm and linear layers; with recompute only that of the block.
  const double kept = config.train.recompute ? 1 : 6;
  const double batch = kFloat * kept * tokens_of(config) *
                       static_cast<double>(config.model.layers * config.model.width);
  return {weights, config.train.precision == Precision::bfloat16 ? batch / 2 : batch};
}

}  // namespace

double least_training_memory(const Config& config) {
  const Need need = need_of(config);
  return need.model + need.batch;
}

void require_memory(const Config& config) {
  const Need need = need_of(config);
  const auto there = static_cast<double>(available_memory());
  if (need.model + need.batch <= there) return;
  throw std::runtime_error(
      fmt::format("out of memory before the first step: weights, gradients and moments of this "
                  "model take {}, a "
                  "batch of {} keeps at least {} for the backward pass, and {} are available; {}",
                  bytes_text(need.model), config.train.batch, bytes_text(need.batch),
                  bytes_text(there), kLessMemory));
}

}  // namespace ssa
