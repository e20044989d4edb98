// RobertaForMaskedLM, and the classes that have its blocks and names.
#include "model/hugging_face/architecture.h"
#include "model/hugging_face/fields.h"

namespace ssa {
namespace {

ModelConfig read_roberta(const ConfigReader& in, const std::string&) {
  in.require("position_embedding_type", "absolute");
  ModelConfig model;
  model.preset = "babyberta";
  model.layers = in.whole("num_hidden_layers");
  model.heads = in.whole("num_attention_heads");
  model.width = in.whole("hidden_size");
  model.mlp_width = in.whole("intermediate_size");
  model.activation = read_activation(in, "hidden_act");
  model.norm_place = NormPlace::after;
  model.norm_epsilon = in.number("layer_norm_eps", 1e-12);
  model.causal = false;
  model.pad_id = in.whole("pad_token_id");
  model.max_positions = in.whole("max_position_embeddings") - model.pad_id - 1;
  model.token_types = in.whole("type_vocab_size");
  model.dropout = read_dropout(in, {"hidden_dropout_prob", "attention_probs_dropout_prob"}, 0.1);
  return model;
}

std::string write_roberta(const ModelConfig& model, Json& config) {
  config.update(Json{{"architectures", Json::array({"RobertaForMaskedLM"})},
                     {"model_type", "roberta"},
                     {"hidden_size", model.width},
                     {"num_hidden_layers", model.layers},
                     {"num_attention_heads", model.heads},
                     {"intermediate_size", model.hidden_width()},
                     {"hidden_act", hugging_face_activation(model.activation)},
                     {"max_position_embeddings", model.first_position() + model.max_positions},
                     {"type_vocab_size", model.token_types},
                     {"pad_token_id", model.pad_id},
                     {"layer_norm_eps", model.norm_epsilon},
                     {"hidden_dropout_prob", model.dropout},
                     {"attention_probs_dropout_prob", model.dropout}});
  return first_failed(
      {{model.norm == NormKind::layer, "RobertaForMaskedLM has LayerNorm alone"},
       {!model.causal, "RobertaForMaskedLM is not causal"},
       {model.token_types > 0, "RobertaForMaskedLM has token types"},
       {model.key_value_heads() == model.heads, "RobertaForMaskedLM has no grouped heads"},
       {model.head_dim() * model.heads == model.width, "RobertaForMaskedLM has no head_width"}});
}

}  // namespace

Architecture roberta_architecture() {
  return {
      .family = Family::roberta,
      .types = {{"roberta", "Roberta"}, {"xlm-roberta", "XLMRoberta"}, {"camembert", "Camembert"}},
      .base = "roberta.",
      .names = {{"wte.", "roberta.embeddings.word_embeddings."},
                {"wpe.", "roberta.embeddings.position_embeddings."},
                {"wtt.", "roberta.embeddings.token_type_embeddings."},
                {"ln_e.", "roberta.embeddings.LayerNorm."},
                {"h.", "roberta.encoder.layer."},
                {".attn.c_proj.", ".attention.output.dense."},
                {".attn.", ".attention.self."},
                {".ln_1.", ".attention.output.LayerNorm."},
                {".mlp.c_fc.", ".intermediate.dense."},
                {".mlp.c_proj.", ".output.dense."},
                {".ln_2.", ".output.LayerNorm."}},
      .query_key_value = {".query.", ".key.", ".value."},
      .copies = {{"lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"},
                 {"lm_head.decoder.bias", "lm_head.bias"}},
      .unused = {"roberta.pooler."},
      .tied = true,
      .read = read_roberta,
      .write = write_roberta};
}

}  // namespace ssa
