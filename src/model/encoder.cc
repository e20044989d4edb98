#include "model/encoder.h"

#include <torch/torch.h>

#include "model/hugging_face/config.h"
#include "model/hugging_face/names.h"
#include "model/initial_weights.h"
#include "model/token_input.h"
#include "ssa/check.h"

namespace ssa {
namespace {

/// Parts of our names and what stands for them in RobertaForMaskedLM's.
constexpr NamePart kNames[] = {
    {"wte.", "roberta.embeddings.word_embeddings."},
    {"wpe.", "roberta.embeddings.position_embeddings."},
    {"wtt.", "roberta.embeddings.token_type_embeddings."},
    {"ln_e.", "roberta.embeddings.LayerNorm."},
    {"h.", "roberta.encoder.layer."},
    {".attn.c_proj.", ".attention.output.dense."},
    {".attn.", ".attention.self."},
    {".ln_1.", ".attention.output.LayerNorm."},
    {".mlp.c_fc.", ".intermediate.dense."},
    {".mlp.c_proj.", ".output.dense."},
    {".ln_2.", ".output.LayerNorm."},
};

}  // namespace

LanguageModelHead::LanguageModelHead(const ModelConfig& config)
    : dense_(register_module("dense", std::make_shared<Linear>(config.width, config.width))),
      layer_norm_(make_norm(config)) {
  if (layer_norm_) register_module("layer_norm", layer_norm_);
  bias_ = register_parameter("bias", torch::zeros({config.vocabulary}));
}

torch::Tensor LanguageModelHead::forward(const torch::Tensor& hidden,
                                         const torch::Tensor& embeddings) const {
  // By the error function whatever the blocks' activation is, as in Hugging Face's head.
  const torch::Tensor inner = normalized(layer_norm_, torch::gelu(dense_->forward(hidden)));
  return torch::addmm(bias_, inner, embeddings.t());
}

Encoder::Encoder(const ModelConfig& config) : config_(config), ln_e_(make_norm(config)) {
  const auto embedding = [&](const char* name, std::int64_t rows) {
    return register_module(name, std::make_shared<Embedding>(rows, config.width))->weight();
  };
  tokens_ = embedding("wte", config.vocabulary);
  positions_ = embedding("wpe", config.pad_id + 1 + config.max_positions);
  if (config.token_types > 0) types_ = embedding("wtt", config.token_types);
  if (ln_e_) register_module("ln_e", ln_e_);
  add_blocks(config);
  lm_head_ = register_module("lm_head", std::make_shared<LanguageModelHead>(config));
}

void Encoder::initialize_weights(std::uint64_t seed) {
  for (const auto& parameter : named_parameters()) {
    if (!decays(parameter.key())) continue;  // norms, biases and the score's parameters stay
    draw_normal(parameter.value(), parameter.key(), seed, config_.init_std);
  }
  const torch::NoGradGuard no_grad;
  for (torch::Tensor table : {tokens_, positions_}) table[config_.pad_id].zero_();
}

Encoder::Rows Encoder::padded_rows(const torch::Tensor& ids) const {
  SSA_CHECK(ids.dim() == 2,
            "model: token ids of shape (batch, tokens) expected, or (tokens) with cu_lengths, not "
                << ids.sizes());
  const torch::Tensor real = ids != config_.pad_id;
  const torch::Tensor lengths = real.sum(1);
  const torch::Tensor place = torch::arange(1, ids.size(1) + 1, ids.options());
  const torch::Tensor inside = place <= lengths.unsqueeze(1);
  if (!torch::equal(real, inside)) {
    const auto where = first_true(inside & ~real);
    SSA_CHECK(false, "model: padding (token id " << config_.pad_id << ") at "
                                                 << torch::IntArrayRef(where)
                                                 << ", before the end of its sequence");
  }
  check_longest(lengths, config_.max_positions);
  return {ids.flatten(),
          (place * inside + config_.pad_id).flatten(),
          {.batch = ids.size(0), .length = ids.size(1), .key_lengths = lengths}};
}

Encoder::Rows Encoder::packed_rows(const torch::Tensor& ids,
                                   const torch::Tensor& cu_lengths) const {
  check_packed(ids, cu_lengths);
  const torch::Tensor padding = ids == config_.pad_id;
  if (padding.any().item<bool>()) {
    const auto where = first_true(padding);
    SSA_CHECK(false, "model: padding (token id " << config_.pad_id << ") at "
                                                 << torch::IntArrayRef(where)
                                                 << " of packed sequences, which have none");
  }
  check_longest(cu_lengths.diff(), config_.max_positions);
  return {ids,
          places_of_packed(cu_lengths) + (config_.pad_id + 1),
          {.batch = 1, .length = ids.size(0), .cu_lengths = cu_lengths}};
}

torch::Tensor Encoder::embedded(const Rows& rows) const {
  torch::Tensor sum = torch::embedding(tokens_, rows.ids, config_.pad_id);
  if (types_.defined()) sum = sum + types_[0];
  sum = sum + torch::embedding(positions_, rows.positions, config_.pad_id);
  return torch::dropout(normalized(ln_e_, sum), config_.dropout, is_training());
}

torch::Tensor Encoder::forward(const ModelInput& input) {
  const torch::Tensor& ids = input.tokens;
  SSA_CHECK(ids.scalar_type() == torch::kLong,
            "model: token ids must be int64, not " << ids.scalar_type());
  check_range("token id", ids, config_.vocabulary, "model.vocabulary");
  const bool packed = input.cu_lengths.defined();
  const Rows rows = packed ? packed_rows(ids, input.cu_lengths) : padded_rows(ids);
  const torch::Tensor hidden = through_blocks(embedded(rows), rows.context);
  const torch::Tensor logits = lm_head_->forward(wanted_rows(hidden, input), tokens_);
  return packed || input.wanted.defined()
             ? logits
             : logits.view({ids.size(0), ids.size(1), config_.vocabulary});
}

std::vector<std::pair<std::string, torch::Tensor>> Encoder::named_weights() const {
  return renamed(
      with_torch_linears(BlockModel::named_weights(), config_, {".query.", ".key.", ".value."}),
      kNames);
}

Json Encoder::hugging_face_config() const {
  const ModelConfig& c = config_;
  const bool is_roberta = c.mlp && c.norm == "layer" && c.residual && !c.causal &&
                          c.token_types > 0 && c.key_value_heads() == c.heads;
  if (!is_roberta) return nullptr;
  // The model knows no ids of beginning and end; Hugging Face's defaults would be other tokens.
  Json config = {{"architectures", Json::array({"RobertaForMaskedLM"})},
                 {"model_type", "roberta"},
                 {"vocab_size", c.vocabulary},
                 {"hidden_size", c.width},
                 {"num_hidden_layers", c.layers},
                 {"num_attention_heads", c.heads},
                 {"intermediate_size", c.hidden_width()},
                 {"hidden_act", hugging_face_activation(c.activation)},
                 {"max_position_embeddings", c.pad_id + 1 + c.max_positions},
                 {"type_vocab_size", c.token_types},
                 {"pad_token_id", c.pad_id},
                 {"bos_token_id", nullptr},
                 {"eos_token_id", nullptr},
                 {"layer_norm_eps", c.norm_epsilon},
                 {"hidden_dropout_prob", c.dropout},
                 {"attention_probs_dropout_prob", c.dropout},
                 {"initializer_range", c.init_std},
                 {"tie_word_embeddings", true}};
  write_score(c, config);
  return config;
}

}  // namespace ssa
