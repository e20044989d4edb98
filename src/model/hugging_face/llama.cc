// LlamaForCausalLM, and the classes that have its blocks with small changes: MistralForCausalLM (a
// window), Qwen2ForCausalLM (biases of query, key and value; a window from some layer on) and
// Qwen3ForCausalLM (norms of query and key).
#include <fmt/format.h>

#include "model/hugging_face/architecture.h"
#include "model/hugging_face/fields.h"

namespace ssa {
namespace {

constexpr std::string_view kLlamaWithoutEffect[] = {
    "pad_token_id",
    "pretraining_tp",  // the order of sums
    "is_llama_config",
    "max_window_layers",  // read with use_sliding_window
    "unsloth_fixed"};

/// The window of Qwen's models, which some first layers may lack.
void read_partial_window(const ConfigReader& in, ModelConfig& model) {
  const std::int64_t size = in.whole("sliding_window", 0);
  if (in.truth("use_sliding_window", false)) model.window = size;
  model.window_first = model.window == 0 ? 0 : in.whole("max_window_layers", 28);
  const auto types = in.texts("layer_types");
  if (types.empty()) return;
  if (static_cast<std::int64_t>(types.size()) != model.layers) {
    in.fail(fmt::format("layer_types has {} entries, but num_hidden_layers = {}", types.size(),
                        model.layers));
  }
  std::int64_t first = 0;
  while (first < model.layers && types[first] == "full_attention") ++first;
  for (std::int64_t layer = first; layer < model.layers; ++layer) {
    if (types[layer] == "sliding_attention" && model.window > 0) continue;
    in.fail(fmt::format(
        "layer_types: \"{}\" in layer {} is not supported, only full_attention in the first layers "
        "and sliding_attention in the others (with use_sliding_window and sliding_window)",
        types[layer], layer));
  }
  model.window_first = first;
  if (first == model.layers) model.window = model.window_first = 0;
}

void read_llama_variant(const ConfigReader& in, const std::string& type, ModelConfig& model) {
  const bool attention = in.truth("attention_bias", false);
  const bool mlp = in.truth("mlp_bias", false);
  if (mlp && !attention) {
    in.fail("mlp_bias = true is supported with attention_bias = true only");
  }
  model.biases = mlp ? Biases::all : attention ? Biases::attention : Biases::none;
  if (type == "mistral") {
    model.window = in.whole("sliding_window", 0);
    if (attention || mlp) in.fail("attention_bias, mlp_bias: MistralForCausalLM has no biases");
  } else if (type == "qwen2" || type == "qwen3") {
    if (mlp) in.fail("mlp_bias = true: Qwen's models have none; the nearest is llama");
    read_partial_window(in, model);
    model.query_key_norm = type == "qwen3";
    if (type == "qwen2") {
      if (attention) in.fail("attention_bias: Qwen2ForCausalLM does not read it");
      model.biases = Biases::query_key_value;
    }
  }
}

ModelConfig read_llama(const ConfigReader& in, const std::string& type) {
  in.require("attention_dropout", 0.0);
  in.require("rope_interleaved", false);
  in.without_effect(kLlamaWithoutEffect);
  ModelConfig model;
  model.preset = "llama-135m";
  read_sizes(in, model);
  model.kv_heads = in.whole("num_key_value_heads", type == "mistral" ? 8 : model.heads);
  model.head_width = in.whole("head_dim", type == "qwen3" ? 128 : 0);
  model.mlp_gate = true;
  model.activation = in.has("hidden_act") ? read_activation(in, "hidden_act") : Activation::silu;
  model.norm = NormKind::rms;
  model.norm_epsilon = in.number("rms_norm_eps", 1e-6);
  model.max_positions = in.whole("max_position_embeddings");
  read_llama_variant(in, type, model);
  read_rotary(in, model, 1.0);
  if (model.rotary_share != 1.0) {
    in.fail("partial_rotary_factor: Llama's blocks turn whole heads; the nearest is nemotron");
  }
  return model;
}

/// The class, by what only one of them has.
std::string_view llama_type_of(const ModelConfig& model) {
  if (model.query_key_norm) return "qwen3";
  if (model.biases == Biases::query_key_value) return "qwen2";
  return model.window > 0 ? "mistral" : "llama";
}

std::string_view llama_class_of(std::string_view type) {
  if (type == "qwen3") return "Qwen3ForCausalLM";
  if (type == "qwen2") return "Qwen2ForCausalLM";
  return type == "mistral" ? "MistralForCausalLM" : "LlamaForCausalLM";
}

void write_partial_window(const ModelConfig& model, Json& config) {
  const bool windowed = model.window > 0;
  config["use_sliding_window"] = windowed;
  config["sliding_window"] = windowed ? Json(model.window) : Json(nullptr);
  config["max_window_layers"] = windowed ? model.window_first : model.layers;
  Json types = Json::array();
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    types.push_back(model.window_of(layer) > 0 ? "sliding_attention" : "full_attention");
  }
  config["layer_types"] = types;
}

std::string write_llama(const ModelConfig& model, Json& config) {
  const std::string_view type = llama_type_of(model), name = llama_class_of(type);
  const bool qwen = type == "qwen2" || type == "qwen3";
  config.update(Json{{"architectures", Json::array({name})},
                     {"model_type", type},
                     {"num_key_value_heads", model.key_value_heads()},
                     {"head_dim", model.head_dim()},
                     {"max_position_embeddings", model.max_positions},
                     {"rms_norm_eps", model.norm_epsilon}});
  write_sizes(model, config);
  if (type == "llama" || type == "qwen3") config["attention_bias"] = model.attention_bias();
  if (type == "llama") config["mlp_bias"] = model.mlp_bias();
  if (type == "mistral") config["sliding_window"] = model.window;
  if (qwen) write_partial_window(model, config);
  write_rotary(model, config);
  config["rope_parameters"].erase("partial_rotary_factor");
  const auto is = [&](const char* what) { return fmt::format("{} has {}", name, what); };
  return first_failed(
      {{model.positions == Positions::rope, is("rotary positions alone")},
       {model.rotary_share == 1.0, is("whole heads turned by rotary positions")},
       {model.norm == NormKind::rms, is("the norm rms alone")},
       {model.mlp_gate, is("a gate in its MLP")},
       {model.dropout == 0, is("no dropout of embeddings and block outputs (model.dropout is "
                               "above 0)")},
       {type != "qwen3" || model.biases == Biases::none || model.biases == Biases::attention,
        is("a bias in all linear layers of attention or in none")},
       {type != "mistral" || model.biases == Biases::none, is("no biases beside its window")},
       {qwen || model.window_first == 0 || model.window == 0, is("its window in every layer")}});
}

}  // namespace

Architecture llama_architecture() {
  return {
      .family = Family::llama,
      .types = {{"llama", "Llama"}, {"mistral", "Mistral"}, {"qwen2", "Qwen2"}, {"qwen3", "Qwen3"}},
      .base = "model.",
      .names = llama_names(),
      .query_key_value = {".q_proj.", ".k_proj.", ".v_proj."},
      .copies = {{"lm_head.weight", "model.embed_tokens.weight"}},
      .unused = {},
      .tied = false,
      .read = read_llama,
      .write = write_llama};
}

}  // namespace ssa
