#include "model/block_model.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/types.h>

#include "model/hugging_face/architecture.h"
#include "model/recompute.h"
#include "ssa/check.h"

namespace ssa {

void BlockModel::add_blocks() {
  const auto list = register_module("h", torch::nn::ModuleList());
  for (std::int64_t layer = 0; layer < config().layers; ++layer) {
    blocks_.push_back(std::make_shared<Block>(config()));
    list->push_back(blocks_.back());
  }
}

torch::Tensor BlockModel::through_blocks(torch::Tensor hidden, SequenceContext context) {
  records_.clear();
  context.records = recording_ ? &records_ : nullptr;
  for (const auto& block : blocks_) {
    // By value: the backward pass comes when this call is over.
    const auto through = [block, context](const torch::Tensor& input) {
      return block->forward(input, context);
    };
    hidden = recompute_ && hidden.requires_grad() ? recomputed(through, hidden) : through(hidden);
    ++context.layer;
  }
  return hidden;
}

void BlockModel::record_attention(bool on) {
  recording_ = on;
  records_.clear();
}

std::vector<std::vector<ScoreParameterValues>> BlockModel::score_parameters() const {
  std::vector<std::vector<ScoreParameterValues>> layers;
  for (const auto& block : blocks_) layers.push_back(block->score_parameters().named_values());
  return layers;
}

void BlockModel::set_score_parameters(const std::vector<double>& values) {
  std::vector<std::vector<double>> shared;
  for (const double value : values) shared.push_back({value});
  for (const auto& block : blocks_) block->score_parameters().set(shared);
}

void BlockModel::set_score_parameters(std::size_t layer,
                                      const std::vector<std::vector<double>>& values) {
  blocks_.at(layer)->score_parameters().set(values);
}

torch::Tensor BlockModel::parameter_named(const std::string& name) const {
  const auto parameters = named_parameters();
  const torch::Tensor* parameter = parameters.find(name);
  SSA_CHECK(parameter != nullptr, "model: no parameter is called " << name);
  return *parameter;
}

bool BlockModel::decays(const std::string& parameter_name) const {
  return parameter_named(parameter_name).dim() >= 2;
}

std::vector<std::int64_t> BlockModel::matrix_columns(const std::string& parameter_name) const {
  const torch::Tensor parameter = parameter_named(parameter_name);
  if (!parameter_name.starts_with("h.") || parameter.dim() != 2) return {};
  if (!parameter_name.ends_with(".c_attn.weight")) return {parameter.size(1)};
  const std::int64_t keys = config().key_value_heads() * config().head_dim();
  return {parameter.size(1) - 2 * keys, keys, keys};
}

std::vector<std::pair<std::string, torch::Tensor>> BlockModel::named_weights() const {
  std::vector<std::pair<std::string, torch::Tensor>> out;
  for (const auto& parameter : named_parameters()) {
    out.emplace_back(parameter.key(), parameter.value());
  }
  for (const auto& fixed : named_buffers()) out.emplace_back(fixed.key(), fixed.value());
  return names_in_files(out, config());
}

}  // namespace ssa
