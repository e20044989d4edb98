#include "model/attention.h"

#include <torch/torch.h>

#include "op/attention.h"

namespace ssa {

SelfAttention::SelfAttention(const ModelConfig& config)
    : heads_(config.heads),
      kv_heads_(config.key_value_heads()),
      head_dim_(config.head_dim()),
      score_(config.score),
      kernel_(config.score_kernel),
      dropout_(config.dropout),
      c_attn_(register_module(
          "c_attn", std::make_shared<Linear>(config.width, (heads_ + 2 * kv_heads_) * head_dim_))),
      c_proj_(
          register_module("c_proj", std::make_shared<Linear>(heads_ * head_dim_, config.width))),
      score_parameters_(*this, config) {}

torch::Tensor SelfAttention::forward(const torch::Tensor& hidden,
                                     const SequenceContext& context) const {
  // split, not select: its backward writes the three gradients into one tensor in a single pass.
  const std::vector<torch::Tensor> parts = c_attn_->forward(hidden).split_with_sizes(
      {heads_ * head_dim_, kv_heads_ * head_dim_, kv_heads_ * head_dim_}, 1);
  const auto by_head = [&](const torch::Tensor& rows) {
    return rows.view({context.batch, context.length, -1, head_dim_});
  };
  torch::Tensor query = by_head(parts[0]), key = by_head(parts[1]);
  if (context.rotary != nullptr) {
    query = rotate(query, *context.rotary);
    key = rotate(key, *context.rotary);
  }
  query = query.transpose(1, 2);  // (batch, heads, length, head dimension)
  key = key.transpose(1, 2);
  const torch::Tensor value = by_head(parts[2]).transpose(1, 2);

  AttentionOptions options;
  options.score = score_;
  options.params = score_parameters_.values();
  options.causal = true;
  options.dropout = is_training() ? dropout_ : 0.0;
  options.kernel = kernel_;
  if (context.records != nullptr) {
    context.records->push_back({attention_weights(query, key, options)});
  }
  const torch::Tensor out = attention(query, key, value, options).out;
  // The operator lays out its result as it finds the query, so this is no copy.
  const torch::Tensor rows = out.transpose(1, 2).reshape({hidden.size(0), heads_ * head_dim_});
  return torch::dropout(c_proj_->forward(rows), dropout_, is_training());
}

}  // namespace ssa
