// BertForMaskedLM.
#include "model/hugging_face/architecture.h"
#include "model/hugging_face/fields.h"

namespace ssa {
namespace {

/// Of the pooler, which has no part in masked language modelling.
constexpr std::string_view kBertWithoutEffect[] = {
    "directionality",       "pooler_fc_size",       "pooler_num_attention_heads",
    "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"};

ModelConfig read_bert(const ConfigReader& in, const std::string&) {
  in.require("position_embedding_type", "absolute");
  in.without_effect(kBertWithoutEffect);
  ModelConfig model;
  model.preset = "bert-tiny";
  model.layers = in.whole("num_hidden_layers");
  model.heads = in.whole("num_attention_heads");
  model.width = in.whole("hidden_size");
  model.mlp_width = in.whole("intermediate_size");
  model.activation = read_activation(in, "hidden_act");
  model.norm_place = NormPlace::after;
  model.norm_epsilon = in.number("layer_norm_eps", 1e-12);
  model.causal = false;
  model.pad_id = in.whole("pad_token_id", 0);
  model.max_positions = in.whole("max_position_embeddings");
  model.token_types = in.whole("type_vocab_size");
  model.dropout = read_dropout(in, {"hidden_dropout_prob", "attention_probs_dropout_prob"}, 0.1);
  return model;
}

std::string write_bert(const ModelConfig& model, Json& config) {
  config.update(Json{{"architectures", Json::array({"BertForMaskedLM"})},
                     {"model_type", "bert"},
                     {"hidden_size", model.width},
                     {"num_hidden_layers", model.layers},
                     {"num_attention_heads", model.heads},
                     {"intermediate_size", model.hidden_width()},
                     {"hidden_act", hugging_face_activation(model.activation)},
                     {"max_position_embeddings", model.max_positions},
                     {"type_vocab_size", model.token_types},
                     {"pad_token_id", model.pad_id},
                     {"layer_norm_eps", model.norm_epsilon},
                     {"hidden_dropout_prob", model.dropout},
                     {"attention_probs_dropout_prob", model.dropout}});
  return first_failed(
      {{model.norm == NormKind::layer, "BertForMaskedLM has LayerNorm alone"},
       {!model.causal, "BertForMaskedLM is not causal"},
       {model.token_types > 0, "BertForMaskedLM has token types"},
       {model.key_value_heads() == model.heads, "BertForMaskedLM has no grouped heads"},
       {model.head_dim() * model.heads == model.width, "BertForMaskedLM has no head_width"}});
}

}  // namespace

Architecture bert_architecture() {
  return {.family = Family::bert,
          .types = {{"bert", "Bert"}},
          .base = "bert.",
          .names = {{"wte.", "bert.embeddings.word_embeddings."},
                    {"wpe.", "bert.embeddings.position_embeddings."},
                    {"wtt.", "bert.embeddings.token_type_embeddings."},
                    {"ln_e.", "bert.embeddings.LayerNorm."},
                    {"lm_head.dense.", "cls.predictions.transform.dense."},
                    {"lm_head.layer_norm.", "cls.predictions.transform.LayerNorm."},
                    {"lm_head.bias", "cls.predictions.bias"},
                    {"h.", "bert.encoder.layer."},
                    {".attn.c_proj.", ".attention.output.dense."},
                    {".attn.", ".attention.self."},
                    {".ln_1.", ".attention.output.LayerNorm."},
                    {".mlp.c_fc.", ".intermediate.dense."},
                    {".mlp.c_proj.", ".output.dense."},
                    {".ln_2.", ".output.LayerNorm."}},
          .query_key_value = {".query.", ".key.", ".value."},
          .copies = {{"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
                     {"cls.predictions.decoder.bias", "cls.predictions.bias"}},
          .unused = {"bert.pooler.", "cls.seq_relationship."},
          .tied = true,
          .read = read_bert,
          .write = write_bert};
}

}  // namespace ssa
