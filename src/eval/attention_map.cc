#include "eval/attention_map.h"

#include <torch/torch.h>

#include "eval/model_json.h"

namespace ssa {
namespace {

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
    layers.push_back(visible_weights(record.weights[0]));
  }
  model.record_attention(false);
  return {{"predictions", to_json(predictions[0])},
          {"score_parameters", score_parameters_json(model)},
          {"weights", std::move(layers)}};
}

}  // namespace ssa
