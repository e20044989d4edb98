#include "eval/attention_map.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <stdexcept>
#include <string>

#include "eval/model_json.h"

namespace ssa {
namespace {

/// Inputs may be so large that their scores overflow.
void require_finite(const torch::Tensor& values, const std::string& what) {
  if (torch::isfinite(values).all().item<bool>()) return;
  throw std::runtime_error(
      fmt::format("the {} are not finite for these inputs: float32 ends at 3.4e38, and products of "
                  "inputs count",
                  what));
}

/// (heads, queries, keys) -> [head][query][keys up to the query]
Json visible_weights(const torch::Tensor& weights) {
  Json heads = Json::array();
  for (std::int64_t head = 0; head < weights.size(0); ++head) {
    Json rows = Json::array();
    for (std::int64_t query = 0; query < weights.size(1); ++query) {
      rows.push_back(to_json(weights[head][query].slice(0, 0, query + 1)));
    }
    heads.push_back(std::move(rows));
  }
  return heads;
}

}  // namespace

Json attention_map(Model& model, const IclSequences& sequence) {
  const torch::NoGradGuard no_gradient;
  model.record_attention(true);
  const torch::Tensor predictions =
      icl_predictions(model.forward(icl_tokens(sequence.x, sequence.y)));
  Json layers = Json::array();
  for (const AttentionRecord& record : model.attention_records()) {
    require_finite(record.weights, fmt::format("attention weights of layer {}", layers.size() + 1));
    layers.push_back(visible_weights(record.weights[0].cpu()));
  }
  require_finite(predictions, "predictions");
  model.record_attention(false);
  return {{"predictions", to_json(predictions[0])},
          {"score_parameters", score_parameters_json(model)},
          {"weights", std::move(layers)}};
}

}  // namespace ssa
