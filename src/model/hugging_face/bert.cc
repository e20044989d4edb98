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
  in.without_effect(kBertWithoutEffect);
  ModelConfig model = read_encoder(in);
  model.preset = "bert-tiny";
  model.pad_id = in.whole("pad_token_id", 0);
  model.max_positions = in.whole("max_position_embeddings");
  return model;
}

std::string write_bert(const ModelConfig& model, Json& config) {
  config["max_position_embeddings"] = model.max_positions;
  return write_encoder(model, "BertForMaskedLM", "bert", config);
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
