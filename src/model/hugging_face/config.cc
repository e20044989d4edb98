#include "model/hugging_face/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "model/rotary.h"

namespace ssa {
namespace {

/// Ours and theirs; of ours the first one is written.
constexpr std::pair<const char*, const char*> kActivations[] = {{"gelu", "gelu"},
                                                                {"gelu-tanh", "gelu_new"},
                                                                {"gelu-tanh", "gelu_pytorch_tanh"},
                                                                {"relu-squared", "relu2"}};

/// config.json, key by key; whatever is wrong is said with file and key.
class Reader {
 public:
  Reader(const std::filesystem::path& file, const Json& config)
      : file_(file.string()), config_(config) {
    if (!config_.is_object()) fail("is not a JSON object");
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(fmt::format("{}: {}", file_, what));
  }

  bool has(const char* key) const { return config_.contains(key) && !config_[key].is_null(); }

  template <class T>
  T get(const char* key) const {
    if (!has(key)) fail(fmt::format("{} is missing", key));
    try {
      return config_[key].get<T>();
    } catch (const Json::exception&) {
      fail(fmt::format("{} = {} is of the wrong type", key, config_[key].dump()));
    }
  }
  template <class T>
  T get(const char* key, const T& otherwise) const {
    return has(key) ? get<T>(key) : otherwise;
  }

  /// A key that must have that value where it stands.
  void require(const char* key, const Json& value) const {
    if (!has(key) || config_[key] == value) return;
    fail(fmt::format("{} = {} is not supported, only {}", key, config_[key].dump(), value.dump()));
  }

  /// Its class, where one is named: whatever head it has, the weights' names will show.
  void require_family(const std::string& prefix) const {
    for (const auto& name : get("architectures", std::vector<std::string>())) {
      if (name.starts_with(prefix)) continue;
      fail(fmt::format("architectures has \"{}\", which is no {}", name, prefix));
    }
  }

  std::string activation(const char* key) const {
    const auto name = get<std::string>(key);
    std::vector<const char*> known;
    for (const auto& [ours, theirs] : kActivations) {
      if (name == theirs) return ours;
      known.push_back(theirs);
    }
    fail(fmt::format("{} = \"{}\" is not supported, only {}", key, name, fmt::join(known, ", ")));
  }

  /// One dropout for everything.
  double dropout(std::initializer_list<const char*> keys, double otherwise) const {
    const double first = get(*keys.begin(), otherwise);
    for (const char* key : keys) {
      if (get(key, otherwise) == first) continue;
      fail(fmt::format("{} = {}, but {} = {}: only the same dropout everywhere is supported", key,
                       get(key, otherwise), *keys.begin(), first));
    }
    return first;
  }

 private:
  std::string file_;
  const Json& config_;
};

ModelConfig gpt2(const Reader& in) {
  in.require("add_cross_attention", false);
  in.require("scale_attn_weights", true);
  in.require("scale_attn_by_inverse_layer_idx", false);
  ModelConfig model;
  model.preset = "gpt2-124m";
  model.layers = in.get<std::int64_t>("n_layer");
  model.heads = in.get<std::int64_t>("n_head");
  model.width = in.get<std::int64_t>("n_embd");
  model.mlp_width = in.get<std::int64_t>("n_inner", 0);
  model.activation = in.activation("activation_function");
  model.norm_epsilon = in.get("layer_norm_epsilon", 1e-5);
  model.max_positions = in.get<std::int64_t>("n_positions");
  model.dropout = in.dropout({"resid_pdrop", "embd_pdrop", "attn_pdrop"}, 0.1);
  return model;
}

ModelConfig nemotron(const Reader& in, const Reader& rope) {
  in.require("attention_dropout", 0.0);
  rope.require("rope_type", "default");
  rope.require("rope_theta", kRotaryBase);
  ModelConfig model;
  model.preset = "nemotron-114m";
  model.layers = in.get<std::int64_t>("num_hidden_layers");
  model.heads = in.get<std::int64_t>("num_attention_heads");
  model.kv_heads = in.get<std::int64_t>("num_key_value_heads", model.heads);
  model.width = in.get<std::int64_t>("hidden_size");
  model.mlp_width = in.get<std::int64_t>("intermediate_size");
  model.activation = in.activation("hidden_act");
  model.linear_bias = in.get("attention_bias", false);
  in.require("mlp_bias", model.linear_bias);
  in.require("head_dim", model.head_dim());
  model.norm = "layer-1p";
  model.norm_epsilon = in.get("norm_eps", 1e-5);
  model.positions = "rope";
  model.rotary_share = rope.get("partial_rotary_factor", 0.5);
  model.max_positions = in.get<std::int64_t>("max_position_embeddings");
  return model;
}

ModelConfig roberta(const Reader& in) {
  in.require("position_embedding_type", "absolute");
  in.require("is_decoder", false);
  ModelConfig model;
  model.preset = "babyberta";
  model.layers = in.get<std::int64_t>("num_hidden_layers");
  model.heads = in.get<std::int64_t>("num_attention_heads");
  model.width = in.get<std::int64_t>("hidden_size");
  model.mlp_width = in.get<std::int64_t>("intermediate_size");
  model.activation = in.activation("hidden_act");
  model.norm_place = "after";
  model.norm_epsilon = in.get("layer_norm_eps", 1e-12);
  model.causal = false;
  model.pad_id = in.get<std::int64_t>("pad_token_id");
  model.max_positions = in.get<std::int64_t>("max_position_embeddings") - model.pad_id - 1;
  model.token_types = in.get<std::int64_t>("type_vocab_size");
  model.dropout = in.dropout({"hidden_dropout_prob", "attention_probs_dropout_prob"}, 0.1);
  return model;
}

void read_score(const Reader& in, ModelConfig& model) {
  // "sdpa", "eager" and the like are ways to compute softmax.
  const auto score = in.get<std::string>("attn_implementation", "softmax");
  const auto names = score_names();
  model.score = std::ranges::find(names, score) == names.end() ? "softmax" : score;
  if (model.score == "softmax") return;
  model.parametrisation = in.get("parametrisation", model.parametrisation);
  model.score_share = in.get("score_share", model.score_share);
  model.score_initial = in.get("score_initial", model.score_initial);
  model.score_frozen = in.get("score_frozen", model.score_frozen);
  model.score_trained = in.get("score_trained", model.score_trained);
}

}  // namespace

void write_score(const ModelConfig& model, Json& config) {
  if (model.score == "softmax") return;
  config.update(Json{{"attn_implementation", model.score},
                     {"parametrisation", model.parametrisation},
                     {"score_share", model.score_share},
                     {"score_initial", model.score_initial},
                     {"score_frozen", model.score_frozen},
                     {"score_trained", model.score_trained}});
}

const char* hugging_face_activation(const std::string& activation) {
  return std::ranges::find(kActivations, activation,
                           [](const auto& pair) { return std::string(pair.first); })
      ->second;
}

ModelConfig read_hugging_face_config(const std::filesystem::path& file, const Json& config) {
  const Reader in(file, config);
  const auto type = in.get<std::string>("model_type");
  ModelConfig model;
  if (type == "gpt2") {
    in.require_family("GPT2");
    model = gpt2(in);
  } else if (type == "nemotron") {
    in.require_family("Nemotron");
    const Json& rope = in.has("rope_parameters") ? config.at("rope_parameters") : config;
    model = nemotron(in, Reader(file, rope));
  } else if (type == "roberta") {
    in.require_family("Roberta");
    model = roberta(in);
  } else {
    in.fail(
        fmt::format("model_type = \"{}\" is not supported, only gpt2, nemotron and roberta", type));
  }
  read_score(in, model);
  model.input = "tokens";
  model.vocabulary = in.get<std::int64_t>("vocab_size");
  // GPT-2 and RoBERTa are tied unless they say otherwise, Nemotron is not.
  model.tied = in.get("tie_word_embeddings", type != "nemotron");
  model.init_std = in.get("initializer_range", 0.02);
  return model;
}

}  // namespace ssa
