#include "eval/attention_statistics.h"

#include <torch/types.h>

namespace ssa {

std::vector<HeadStatistics> attention_statistics(const std::vector<AttentionRecord>& layers,
                                                 std::optional<std::int64_t> token) {
  std::vector<HeadStatistics> found;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    // (batch, heads, queries, keys) -> one value per head
    const torch::Tensor weights = layers[layer].weights.detach().to(torch::kCPU, torch::kDouble);
    const torch::Tensor entropy = -torch::xlogy(weights, weights).sum(3).mean({0, 2});
    const torch::Tensor p_max = weights.amax(3).mean({0, 2});
    torch::Tensor mass;
    if (token) {
      TORCH_CHECK(*token >= 0 && *token < weights.size(3) && weights.size(2) == weights.size(3),
                  "token ", *token, " is not a query of attention weights of shape ",
                  weights.sizes());
      mass = weights.slice(2, *token).select(3, *token).mean({0, 2});
    }
    for (std::int64_t head = 0; head < weights.size(1); ++head) {
      HeadStatistics& entry = found.emplace_back();
      entry.layer = static_cast<std::int64_t>(layer);
      entry.head = head;
      if (token) entry.mass = mass[head].item<double>();
      entry.entropy = entropy[head].item<double>();
      entry.p_max = p_max[head].item<double>();
    }
  }
  return found;
}

}  // namespace ssa
