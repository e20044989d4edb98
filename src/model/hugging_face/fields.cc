#include "model/hugging_face/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace ssa {
namespace {

/// Ours and theirs; of ours the first one is written.
constexpr std::pair<Activation, std::string_view> kActivations[] = {
    {Activation::gelu, "gelu"},
    {Activation::gelu_tanh, "gelu_new"},
    {Activation::gelu_tanh, "gelu_pytorch_tanh"},
    {Activation::gelu_tanh, "gelu_fast"},
    {Activation::relu, "relu"},
    {Activation::relu_squared, "relu2"},
    {Activation::silu, "silu"},
    {Activation::silu, "swish"}};

/// Ways of transformers to compute softmax.
constexpr std::string_view kSoftmaxWays[] = {"eager",
                                             "sdpa",
                                             "flex_attention",
                                             "flash_attention_2",
                                             "flash_attention_3",
                                             "flash_attention_4"};

template <Choice C>
C read_choice(const ConfigReader& in, std::string_view key, C otherwise) {
  if (!in.has(key)) return otherwise;
  const std::string name = in.text(key);
  if (const auto found = find_choice<C>(name)) return *found;
  in.fail(fmt::format("{} = \"{}\" is not supported, only {}", key, name,
                      fmt::join(choice_names<C>(), ", ")));
}

double magnitude(double factor, double scale) {
  return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
}

void read_scaling(const ConfigReader& rope, const std::string& type, ModelConfig& model) {
  if (type == "default" || type == "none") return;
  if (type == "linear") {
    model.rotary_scaling = RotaryScaling::linear;
  } else if (type == "llama3") {
    model.rotary_scaling = RotaryScaling::llama3;
    model.rotary_low = rope.number("low_freq_factor");
    model.rotary_high = rope.number("high_freq_factor");
  } else if (type == "yarn") {
    model.rotary_scaling = RotaryScaling::yarn;
    model.rotary_low = rope.number("beta_slow", 1.0);
    model.rotary_high = rope.number("beta_fast", 32.0);
    rope.require("truncate", true);
  } else {
    rope.fail(fmt::format(
        "rope_type = \"{}\" is not supported, only default, linear, llama3 and yarn; the nearest "
        "is {}",
        type, type == "dynamic" || type == "longrope" ? "yarn" : "linear"));
  }
  model.rotary_factor = rope.number("factor");
  if (model.rotary_scaling == RotaryScaling::linear) return;
  model.rotary_original = rope.whole("original_max_position_embeddings", model.max_positions);
  if (model.rotary_scaling != RotaryScaling::yarn) return;
  const double scale = rope.number("mscale", 0.0), all = rope.number("mscale_all_dim", 0.0);
  const double by_rule = scale != 0 && all != 0 ? magnitude(model.rotary_factor, scale) /
                                                      magnitude(model.rotary_factor, all)
                                                : magnitude(model.rotary_factor, 1.0);
  model.rotary_magnitude = rope.number("attention_factor", by_rule);
}

/// A number that may stand beside the object, inside it, or both.
double read_beside(const ConfigReader& in, const ConfigReader& rope, std::string_view key,
                   double otherwise) {
  const double outside = in.number(key, otherwise), inside = rope.number(key, outside);
  if (in.has(key) && inside != outside) {
    in.fail(fmt::format("{} = {}, but {} in the rotary parameters", key, outside, inside));
  }
  return inside;
}

}  // namespace

std::string hugging_face_activation(Activation activation) {
  const auto* found =
      std::ranges::find(kActivations, activation, &std::pair<Activation, std::string_view>::first);
  return std::string(found->second);
}

Activation read_activation(const ConfigReader& in, std::string_view key) {
  const std::string name = in.text(key);
  std::vector<std::string_view> known;
  for (const auto& [ours, theirs] : kActivations) {
    if (name == theirs) return ours;
    known.push_back(theirs);
  }
  in.fail(fmt::format("{} = \"{}\" is not supported, only {}", key, name, fmt::join(known, ", ")));
}

void read_sizes(const ConfigReader& in, ModelConfig& model) {
  model.layers = in.whole("num_hidden_layers");
  model.heads = in.whole("num_attention_heads");
  model.width = in.whole("hidden_size");
  model.mlp_width = in.whole("intermediate_size");
}

void write_sizes(const ModelConfig& model, Json& config) {
  config["hidden_size"] = model.width;
  config["num_hidden_layers"] = model.layers;
  config["num_attention_heads"] = model.heads;
  config["intermediate_size"] = model.hidden_width();
  config["hidden_act"] = hugging_face_activation(model.activation);
}

ModelConfig read_encoder(const ConfigReader& in) {
  in.require("position_embedding_type", "absolute");
  ModelConfig model;
  read_sizes(in, model);
  model.activation = read_activation(in, "hidden_act");
  model.norm_place = NormPlace::after;
  model.norm_epsilon = in.number("layer_norm_eps", 1e-12);
  model.causal = false;
  model.token_types = in.whole("type_vocab_size");
  model.dropout = read_dropout(in, {"hidden_dropout_prob", "attention_probs_dropout_prob"}, 0.1);
  return model;
}

std::string write_encoder(const ModelConfig& model, std::string_view name, std::string_view type,
                          Json& config) {
  config["architectures"] = Json::array({name});
  config["model_type"] = type;
  write_sizes(model, config);
  config.update(Json{{"type_vocab_size", model.token_types},
                     {"pad_token_id", model.pad_id},
                     {"layer_norm_eps", model.norm_epsilon},
                     {"hidden_dropout_prob", model.dropout},
                     {"attention_probs_dropout_prob", model.dropout}});
  const auto says = [&](const char* what) { return fmt::format("{} {}", name, what); };
  return first_failed({{model.norm == NormKind::layer, says("has LayerNorm alone")},
                       {!model.causal, says("is not causal")},
                       {model.token_types > 0, says("has token types")},
                       {model.key_value_heads() == model.heads, says("has no grouped heads")},
                       {model.head_dim() * model.heads == model.width, says("has no head_width")}});
}

double read_dropout(const ConfigReader& in, std::initializer_list<std::string_view> keys,
                    double otherwise) {
  const double first = in.number(*keys.begin(), otherwise);
  for (const std::string_view key : keys) {
    const double value = in.number(key, otherwise);
    if (value == first) continue;
    in.fail(fmt::format("{} = {}, but {} = {}: only the same dropout everywhere is supported", key,
                        value, *keys.begin(), first));
  }
  return first;
}

void read_score(const ConfigReader& in, ModelConfig& model) {
  const std::vector<std::string> names = score_names();
  model.score = "softmax";
  for (const std::string_view key : {"attn_implementation", "_attn_implementation"}) {
    if (!in.has(key)) continue;
    const std::string score = in.text(key);
    if (std::ranges::find(kSoftmaxWays, score) != std::end(kSoftmaxWays)) continue;
    if (std::ranges::find(names, score) == names.end()) {
      std::vector<std::string> known = names;
      known.insert(known.end(), std::begin(kSoftmaxWays), std::end(kSoftmaxWays));
      in.fail(fmt::format("{} = \"{}\" is not known{}", key, score,
                          did_you_mean(score, known, "\"", "\"")));
    }
    model.score = score;
  }
  model.parametrisation = read_choice(in, "parametrisation", model.parametrisation);
  model.score_share = read_choice(in, "score_share", model.score_share);
  const auto initial = in.numbers("score_initial");
  const auto frozen = in.texts("score_frozen"), trained = in.texts("score_trained");
  if (model.score == "softmax") return;  // what another score had left behind
  model.score_initial = initial;
  model.score_frozen = frozen;
  model.score_trained = trained;
}

void write_score(const ModelConfig& model, Json& config) {
  if (model.score == "softmax") return;
  config.update(Json{{"attn_implementation", model.score},
                     {"parametrisation", model.parametrisation},
                     {"score_share", model.score_share},
                     {"score_initial", model.score_initial},
                     {"score_frozen", model.score_frozen},
                     {"score_trained", model.score_trained}});
}

void read_rotary(const ConfigReader& in, ModelConfig& model, double share) {
  static const Json nothing = Json::object();
  const bool older = in.has("rope_scaling");
  if (older && in.has("rope_parameters") &&
      in.value("rope_scaling") != in.value("rope_parameters")) {
    in.fail("rope_scaling and rope_parameters are both there, and differ");
  }
  const char* key = older ? "rope_scaling" : "rope_parameters";
  const ConfigReader rope = in.inner(key, in.has(key) ? in.value(key) : nothing);
  model.positions = Positions::rope;
  model.rotary_base = read_beside(in, rope, "rope_theta", 10000.0);
  model.rotary_share = read_beside(in, rope, "partial_rotary_factor", share);
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (rope.text("type", type) != type) {
    rope.fail(fmt::format("{}: rope_type and type differ", key));
  }
  read_scaling(rope, type, model);
  rope.refuse_unknown();
}

void write_rotary(const ModelConfig& model, Json& config) {
  Json rope = {{"rope_type", "default"},
               {"rope_theta", model.rotary_base},
               {"partial_rotary_factor", model.rotary_share}};
  switch (model.rotary_scaling) {
    case RotaryScaling::none:
      break;
    case RotaryScaling::linear:
      rope.update(Json{{"rope_type", "linear"}, {"factor", model.rotary_factor}});
      break;
    case RotaryScaling::llama3:
      rope.update(Json{{"rope_type", "llama3"},
                       {"factor", model.rotary_factor},
                       {"low_freq_factor", model.rotary_low},
                       {"high_freq_factor", model.rotary_high},
                       {"original_max_position_embeddings", model.original_positions()}});
      break;
    case RotaryScaling::yarn:
      rope.update(Json{{"rope_type", "yarn"},
                       {"factor", model.rotary_factor},
                       {"beta_slow", model.rotary_low},
                       {"beta_fast", model.rotary_high},
                       {"original_max_position_embeddings", model.original_positions()}});
      if (model.rotary_magnitude > 0) rope["attention_factor"] = model.rotary_magnitude;
      break;
  }
  config["rope_parameters"] = rope;
}

std::string first_failed(std::initializer_list<std::pair<bool, std::string>> conditions) {
  for (const auto& [holds, reason] : conditions) {
    if (!holds) return reason;
  }
  return "";
}

}  // namespace ssa
