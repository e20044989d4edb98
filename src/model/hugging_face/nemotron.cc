// NemotronForCausalLM.
#include "model/hugging_face/architecture.h"
#include "model/hugging_face/fields.h"

namespace ssa {
namespace {

constexpr std::string_view kNemotronWithoutEffect[] = {"pad_token_id"};

ModelConfig read_nemotron(const ConfigReader& in, const std::string&) {
  in.require("attention_dropout", 0.0);
  in.require("hidden_dropout", 0.0);
  in.without_effect(kNemotronWithoutEffect);
  ModelConfig model;
  model.preset = "nemotron-114m";
  read_sizes(in, model);
  model.kv_heads = in.whole("num_key_value_heads", model.heads);
  model.activation = read_activation(in, "hidden_act");
  const bool biases = in.truth("attention_bias", false);
  in.require("mlp_bias", biases);
  model.biases = biases ? Biases::all : Biases::none;
  model.head_width = in.whole("head_dim", 0);
  model.norm = NormKind::layer_1p;
  model.norm_epsilon = in.number("norm_eps", 1e-5);
  model.max_positions = in.whole("max_position_embeddings");
  read_rotary(in, model, 0.5);
  if (model.rotary_scaling != RotaryScaling::none) {
    in.fail("rope_type: NemotronForCausalLM has the default alone; the nearest is llama");
  }
  return model;
}

std::string write_nemotron(const ModelConfig& model, Json& config) {
  const bool biases = model.biases == Biases::all;
  config.update(Json{{"architectures", Json::array({"NemotronForCausalLM"})},
                     {"model_type", "nemotron"},
                     {"num_key_value_heads", model.key_value_heads()},
                     {"head_dim", model.head_dim()},
                     {"max_position_embeddings", model.max_positions},
                     {"norm_eps", model.norm_epsilon},
                     {"attention_bias", biases},
                     {"mlp_bias", biases},
                     {"rope_theta", model.rotary_base},
                     {"partial_rotary_factor", model.rotary_share}});
  write_sizes(model, config);
  write_rotary(model, config);
  return first_failed(
      {{model.positions == Positions::rope, "NemotronForCausalLM has rotary positions alone"},
       {model.rotary_scaling == RotaryScaling::none,
        "NemotronForCausalLM has no scaling of rotary positions"},
       {model.norm == NormKind::layer_1p, "NemotronForCausalLM has the norm layer-1p alone"},
       {biases || model.biases == Biases::none,
        "NemotronForCausalLM has a bias in all linear layers or in none"},
       {model.dropout == 0,
        "NemotronForCausalLM drops attention weights out, but not embeddings and block outputs "
        "(model.dropout is above 0)"},
       {!model.mlp_gate, "NemotronForCausalLM has no gate in its MLP"},
       {!model.query_key_norm, "NemotronForCausalLM has no norm of queries and keys"},
       {model.window == 0, "NemotronForCausalLM has no window"}});
}

}  // namespace

Architecture nemotron_architecture() {
  return {.family = Family::nemotron,
          .types = {{"nemotron", "Nemotron"}},
          .base = "model.",
          .names = llama_names(),
          .query_key_value = {".q_proj.", ".k_proj.", ".v_proj."},
          .copies = {{"lm_head.weight", "model.embed_tokens.weight"}},
          .unused = {},
          .tied = false,
          .read = read_nemotron,
          .write = write_nemotron};
}

}  // namespace ssa
