// GPT2LMHeadModel.
#include "model/hugging_face/architecture.h"
#include "model/hugging_face/fields.h"

namespace ssa {
namespace {

constexpr std::string_view kGpt2WithoutEffect[] = {
    "n_ctx",                    // a second n_positions of old files
    "reorder_and_upcast_attn",  // the order of rounding
    "pad_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj"};

ModelConfig read_gpt2(const ConfigReader& in, const std::string&) {
  in.require("scale_attn_weights", true);
  in.require("scale_attn_by_inverse_layer_idx", false);
  in.without_effect(kGpt2WithoutEffect);
  ModelConfig model;
  model.preset = "gpt2-124m";
  model.layers = in.whole("n_layer");
  model.heads = in.whole("n_head");
  model.width = in.whole("n_embd");
  model.mlp_width = in.whole("n_inner", 0);
  model.activation = read_activation(in, "activation_function");
  model.norm_epsilon = in.number("layer_norm_epsilon", 1e-5);
  model.max_positions = in.whole("n_positions");
  model.dropout = read_dropout(in, {"resid_pdrop", "embd_pdrop", "attn_pdrop"}, 0.1);
  return model;
}

std::string write_gpt2(const ModelConfig& model, Json& config) {
  config.update(Json{{"architectures", Json::array({"GPT2LMHeadModel"})},
                     {"model_type", "gpt2"},
                     {"n_positions", model.max_positions},
                     {"n_embd", model.width},
                     {"n_layer", model.layers},
                     {"n_head", model.heads},
                     {"n_inner", model.hidden_width()},
                     {"activation_function", hugging_face_activation(model.activation)},
                     {"layer_norm_epsilon", model.norm_epsilon},
                     {"embd_pdrop", model.dropout},
                     {"attn_pdrop", model.dropout},
                     {"resid_pdrop", model.dropout}});
  return first_failed(
      {{model.positions == Positions::learned, "GPT2LMHeadModel has learned positions alone"},
       {model.norm == NormKind::layer, "GPT2LMHeadModel has LayerNorm alone"},
       {model.biases == Biases::all, "GPT2LMHeadModel has a bias in every linear layer"},
       {model.key_value_heads() == model.heads, "GPT2LMHeadModel has no grouped heads"},
       {model.head_dim() * model.heads == model.width, "GPT2LMHeadModel has no head_width"},
       {!model.mlp_gate, "GPT2LMHeadModel has no gate in its MLP"},
       {!model.query_key_norm, "GPT2LMHeadModel has no norm of queries and keys"},
       {model.window == 0, "GPT2LMHeadModel has no window"}});
}

}  // namespace

Architecture gpt2_architecture() {
  return {.family = Family::gpt2,
          .types = {{"gpt2", "GPT2"}},
          .base = "transformer.",
          .names = {{"wte.", "transformer.wte."},
                    {"wpe.", "transformer.wpe."},
                    {"h.", "transformer.h."},
                    {"ln_f.", "transformer.ln_f."}},
          .query_key_value = {},
          .copies = {{"lm_head.weight", "transformer.wte.weight"}},
          .unused = {},
          .tied = true,
          .read = read_gpt2,
          .write = write_gpt2};
}

}  // namespace ssa
