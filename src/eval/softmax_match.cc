#include "eval/softmax_match.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "eval/likelihood.h"
#include "model/softmax_limit.h"
#include "ssa/check.h"

namespace ssa {
namespace {

torch::Tensor ids_of(const std::vector<TokenId>& text) {
  return torch::tensor(std::vector<std::int64_t>(text.begin(), text.end()), torch::kLong)
      .unsqueeze(0);
}

/// Calls `work(layer, record)` for every layer and text.
template <class Work>
void for_each_record(Model& model, const TokenTexts& texts, const Work& work) {
  const torch::NoGradGuard no_gradient;
  model.eval();
  model.record_attention(true);
  for (const auto& text : texts) {
    model.hidden(ids_of(text));
    std::size_t layer = 0;
    for (const AttentionRecord& record : model.attention_records()) work(layer++, record);
  }
  model.record_attention(false);
}

/// The scores of a record's queries and keys, (batch, heads, queries, keys), −inf where hidden.
torch::Tensor scores_of(const AttentionRecord& record) {
  const torch::Tensor query = record.query.to(torch::kFloat32);
  const torch::Tensor key =
      record.key.to(torch::kFloat32).repeat_interleave(query.size(1) / record.key.size(1), 1);
  torch::Tensor scores = torch::matmul(query, key.transpose(2, 3))
                             .mul_(1 / std::sqrt(static_cast<double>(query.size(3))));
  const torch::Tensor place = torch::arange(query.size(2));
  const torch::Tensor ahead = place.unsqueeze(0) - place.unsqueeze(1);  // of the query
  torch::Tensor hidden = torch::zeros_like(ahead, torch::kBool);
  if (record.options.causal) hidden.logical_or_(ahead > 0);
  if (record.options.window) hidden.logical_or_(ahead.abs() >= *record.options.window);
  return scores.masked_fill_(hidden, -INFINITY);
}

/// (heads): S of SoftmaxLimit::departure.
torch::Tensor sizes_of(const std::string& score, const torch::Tensor& scores) {
  const torch::Tensor hidden = scores == -INFINITY;
  if (score == "sink") return -scores.logsumexp(-1).amin({0, 2});
  if (score != "entmax") return scores.abs().masked_fill_(hidden, 0).amax({0, 2, 3});
  const torch::Tensor largest = scores.amax(-1, true);
  const torch::Tensor surprise = scores.logsumexp(-1, true) - largest;
  const torch::Tensor distance = (largest - scores).masked_fill_(hidden, 0);
  return (distance * (distance + 2 * surprise)).sqrt_().amax({0, 2, 3});
}

std::vector<double> numbers(const torch::Tensor& values) {
  const torch::Tensor plain = values.to(torch::kFloat64).contiguous();
  const double* data = plain.const_data_ptr<double>();
  return {data, data + plain.numel()};
}

/// (parameters)(heads) in the score's order.
std::vector<std::vector<double>> values_of(const std::vector<double>& sizes,
                                           const std::string& score, double strength,
                                           Parametrisation how) {
  std::vector<std::vector<double>> values(find_score(score).params.size());
  for (const double size : sizes) {
    const std::vector<double> of_head = match_softmax(score, size, strength, how);
    for (std::size_t i = 0; i < values.size(); ++i) values[i].push_back(of_head[i]);
  }
  return values;
}

}  // namespace

std::vector<MatchedLayer> match_on_texts(Model& model, const TokenTexts& texts,
                                         const std::string& score, double strength,
                                         Parametrisation how) {
  SSA_CHECK(model.config().score == "softmax",
            "a model of " << model.config().score << " cannot be matched, only one of softmax");
  match_softmax(score, kRuleSize, strength, how);  // refuses before the work
  std::vector<torch::Tensor> sizes(static_cast<std::size_t>(model.config().layers));
  for_each_record(model, texts, [&](std::size_t layer, const AttentionRecord& record) {
    const torch::Tensor found = sizes_of(score, scores_of(record));
    sizes[layer] = sizes[layer].defined() ? torch::maximum(sizes[layer], found) : found;
  });
  std::vector<MatchedLayer> layers;
  for (const torch::Tensor& of_layer : sizes) {
    MatchedLayer& layer = layers.emplace_back();
    const bool shared = model.config().score_share == ScoreShare::layer;
    layer.sizes = numbers(shared ? of_layer.amax(0, true) : of_layer);
    layer.values = values_of(layer.sizes, score, strength, how);
  }
  std::vector<torch::Tensor> moved(sizes.size());
  double rows = 0;
  for_each_record(model, texts, [&](std::size_t layer, const AttentionRecord& record) {
    AttentionOptions options = record.options;
    options.score = score;
    options.params.clear();
    for (const auto& values : layers[layer].values) {
      options.params.push_back(torch::tensor(values, torch::kFloat32));
    }
    const torch::Tensor other = attention_weights(record.query, record.key, options);
    const torch::Tensor several = (scores_of(record) != -INFINITY).sum(-1) > 1;
    const torch::Tensor change =
        ((record.weights - other).abs().sum(-1, false, torch::kFloat64) / 2 * several).sum({0, 2});
    moved[layer] = moved[layer].defined() ? moved[layer] + change : change;
    if (layer == 0) rows += several[0][0].sum().item<double>();
  });
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].moved = numbers(moved[i] / std::max(rows, 1.0));
  }
  return layers;
}

TextMeasure measure_texts(Model& model, const TokenTexts& texts) {
  TextMeasure measure;
  if (model.config().causal) {
    std::vector<LikelihoodRequest> requests;
    double tokens = 0, nats = 0;
    for (const auto& text : texts) {
      requests.push_back({{text.front()}, {text.begin() + 1, text.end()}});
      tokens += static_cast<double>(text.size() - 1);
    }
    for (const Likelihood& one : log_likelihoods(model, model.config().max_positions, requests)) {
      nats -= one.log_probability;
    }
    measure.perplexity = std::exp(nats / tokens);
    return measure;
  }
  const torch::NoGradGuard no_gradient;
  model.eval();
  for (const auto& text : texts) {
    const torch::Tensor mean = model.hidden(ids_of(text)).to(torch::kFloat32).mean(0).contiguous();
    const float* data = mean.const_data_ptr<float>();
    measure.embedding.emplace_back(data, data + mean.numel());
  }
  return measure;
}

double similarity(const TextMeasure& one, const TextMeasure& other) {
  double sum = 0;
  for (std::size_t i = 0; i < one.embedding.size(); ++i) {
    sum += torch::cosine_similarity(torch::tensor(one.embedding[i]),
                                    torch::tensor(other.embedding[i]), 0)
               .item<double>();
  }
  return sum / static_cast<double>(one.embedding.size());
}

}  // namespace ssa
