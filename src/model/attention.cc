#include "model/attention.h"

#include <torch/types.h>

#include <algorithm>

#include "op/attention.h"
#include "op/dropout.h"
#include "ssa/check.h"

namespace ssa {
namespace {

/// (batch, heads, queries, keys). Packed sequences become the batch, each padded with zeros to the
/// longest.
torch::Tensor weights_of(const torch::Tensor& query, const torch::Tensor& key,
                         const AttentionOptions& options,
                         const std::optional<torch::Tensor>& cu_lengths) {
  if (!cu_lengths) return attention_weights(query, key, options);
  const torch::Tensor cu = cu_lengths->cpu().contiguous();
  const auto start = cu.accessor<std::int64_t, 1>();
  const std::int64_t sequences = cu.size(0) - 1;
  std::int64_t longest = 0;
  for (std::int64_t s = 0; s < sequences; ++s) longest = std::max(longest, start[s + 1] - start[s]);
  torch::Tensor out = torch::zeros({sequences, query.size(1), longest, longest}, query.options());
  for (std::int64_t s = 0; s < sequences; ++s) {
    const std::int64_t length = start[s + 1] - start[s];
    out[s]
        .narrow(1, 0, length)
        .narrow(2, 0, length)
        .copy_(attention_weights(query.narrow(2, start[s], length), key.narrow(2, start[s], length),
                                 options)[0]);
  }
  return out;
}

void record(const torch::Tensor& query, const torch::Tensor& key, const AttentionOptions& options,
            const SequenceContext& context) {
  if (context.records == nullptr) return;
  context.records->push_back({weights_of(query.detach(), key.detach(), options, context.cu_lengths),
                              query.detach(), key.detach(), options});
}

/// Each packed sequence by itself, from the keys and values that its cache then holds.
torch::Tensor with_caches(const torch::Tensor& query, const torch::Tensor& key,
                          const torch::Tensor& value, const AttentionOptions& options,
                          const SequenceContext& context) {
  SSA_CHECK(context.records == nullptr, "model: attention is not recorded with a key/value cache");
  const auto start = context.cu_lengths->accessor<std::int64_t, 1>();
  std::vector<torch::Tensor> outs;
  for (std::size_t s = 0; s < context.caches.size(); ++s) {
    const auto at = static_cast<std::int64_t>(s);
    const auto own = [&](const torch::Tensor& all) {
      return all.narrow(2, start[at], start[at + 1] - start[at]);
    };
    const auto [keys, values] = context.caches[s]->append(context.layer, own(key), own(value));
    outs.push_back(attention(own(query), keys, values, options).out);
  }
  return outs.size() == 1 ? outs[0] : torch::cat(outs, 2);
}

}  // namespace

SelfAttention::SelfAttention(const ModelConfig& config)
    : config_(config),
      heads_(config.heads),
      kv_heads_(config.key_value_heads()),
      head_dim_(config.head_dim()),
      c_attn_(register_module(
          "c_attn", std::make_shared<Linear>(config.width, (heads_ + 2 * kv_heads_) * head_dim_,
                                             config.query_key_value_bias()))),
      c_proj_(register_module("c_proj", std::make_shared<Linear>(heads_ * head_dim_, config.width,
                                                                 config.attention_bias()))),
      score_parameters_(*this, config) {
  if (!config.query_key_norm) return;
  const auto norm = [&](const char* name) {
    return register_module(name,
                           std::make_shared<Norm>(NormKind::rms, head_dim_, config.norm_epsilon));
  };
  q_norm_ = norm("q_norm");
  k_norm_ = norm("k_norm");
}

torch::Tensor SelfAttention::forward(const torch::Tensor& hidden,
                                     const SequenceContext& context) const {
  // split, not select: its backward writes the three gradients into one tensor in a single pass.
  const std::vector<torch::Tensor> parts = c_attn_->forward(hidden).split_with_sizes(
      {heads_ * head_dim_, kv_heads_ * head_dim_, kv_heads_ * head_dim_}, 1);
  const auto by_head = [&](const torch::Tensor& rows, std::int64_t heads) {
    return rows.view({context.batch, context.length, heads, head_dim_});
  };
  torch::Tensor query = normalized(q_norm_, by_head(parts[0], heads_));
  torch::Tensor key = normalized(k_norm_, by_head(parts[1], kv_heads_));
  if (context.rotation) {
    query = rotate(query, *context.rotation);
    key = rotate(key, *context.rotation);
  }
  query = query.transpose(1, 2);  // (batch, heads, length, head dimension)
  key = key.transpose(1, 2);
  torch::Tensor value = by_head(parts[2], kv_heads_).transpose(1, 2);
  torch::Tensor out;
  if (context.caches.empty()) {
    AttentionOptions all = options(context);
    record(query, key, all, context);
    all.cu_query = context.cu_lengths;
    all.cu_key = context.cu_lengths;
    out = attention(query, key, value, all).out;
  } else {
    out = with_caches(query, key, value, options(context), context);
  }
  // The operator lays out its result as it finds the query, so this is no copy.
  const torch::Tensor rows = out.transpose(1, 2).reshape({hidden.size(0), heads_ * head_dim_});
  return c_proj_->forward(rows);
}

AttentionOptions SelfAttention::options(const SequenceContext& context) const {
  AttentionOptions options;
  options.score = config_.score;
  options.params = score_parameters_.values();
  options.causal = config_.causal;
  if (const std::int64_t window = config_.window_of(context.layer); window > 0) {
    options.window = window;
  }
  options.key_lengths = context.key_lengths;
  options.dropout = is_training() ? config_.dropout : 0.0;
  // From the CPU's generator on every device: what blocks recompute draws the same again.
  if (options.dropout > 0) options.seed = torch::scalar_tensor(draw_dropout_seed(), torch::kLong);
  options.kernel = name_of(config_.score_kernel);
  return options;
}

}  // namespace ssa
