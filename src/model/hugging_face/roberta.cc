// RobertaForMaskedLM, and the classes that have its blocks and names.
#include "model/hugging_face/architecture.h"
#include "model/hugging_face/fields.h"

namespace ssa {
namespace {

/// Positions begin behind the padding's id.
ModelConfig read_roberta(const ConfigReader& in, const std::string&) {
  ModelConfig model = read_encoder(in);
  model.preset = "babyberta";
  model.pad_id = in.whole("pad_token_id");
  model.max_positions = in.whole("max_position_embeddings") - model.pad_id - 1;
  return model;
}

std::string write_roberta(const ModelConfig& model, Json& config) {
  config["max_position_embeddings"] = model.first_position() + model.max_positions;
  return write_encoder(model, "RobertaForMaskedLM", "roberta", config);
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
