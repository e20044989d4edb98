#include "model/language_decoder.h"

#include <torch/torch.h>

#include "model/cross_entropy.h"
#include "model/embedding.h"
#include "model/hugging_face/config.h"
#include "model/hugging_face/names.h"
#include "model/token_input.h"
#include "ssa/check.h"

namespace ssa {
namespace {

constexpr NamePart kGpt2Names[] = {
    {"wte.", "transformer.wte."},
    {"wpe.", "transformer.wpe."},
    {"h.", "transformer.h."},
    {"ln_f.", "transformer.ln_f."},
};

constexpr NamePart kNemotronNames[] = {
    {"wte.", "model.embed_tokens."},
    {"h.", "model.layers."},
    {"ln_f.", "model.norm."},
    {".ln_1.", ".input_layernorm."},
    {".attn.c_proj.", ".self_attn.o_proj."},
    {".attn.", ".self_attn."},
    {".ln_2.", ".post_attention_layernorm."},
    {".mlp.c_fc.", ".mlp.up_proj."},
    {".mlp.c_proj.", ".mlp.down_proj."},
};

}  // namespace

LanguageDecoder::LanguageDecoder(const ModelConfig& config) : Decoder(config) {
  const auto table = [&](const char* name) {
    return register_module(name, std::make_shared<Embedding>(config.vocabulary, config.width))
        ->weight();
  };
  tokens_ = table("wte");
  add_decoder();
  head_ = config.tied ? tokens_ : table("lm_head");
}

torch::Tensor LanguageDecoder::forward(const ModelInput& input) {
  const torch::Tensor& ids = input.tokens;
  SSA_CHECK(ids.scalar_type() == torch::kLong,
            "model: token ids must be int64, not " << ids.scalar_type());
  check_range("token id", ids, config().vocabulary, "model.vocabulary");
  SequenceContext context{.batch = 1, .length = ids.numel(), .cache = input.cache};
  torch::Tensor places;
  if (input.cu_lengths.defined()) {
    SSA_CHECK(input.cache == nullptr, "model: packed sequences have no cache");
    check_packed(ids, input.cu_lengths);
    check_longest(input.cu_lengths.diff(), config().max_positions);
    context.cu_lengths = input.cu_lengths;
    places = places_of_packed(input.cu_lengths);
  } else {
    SSA_CHECK(
        ids.dim() == 2,
        "model: token ids of shape (batch, tokens) expected, or (tokens) with cu_lengths, not "
            << ids.sizes());
    context.batch = ids.size(0);
    context.length = ids.size(1);
  }
  const torch::Tensor embedded = torch::embedding(tokens_, ids.flatten());
  const torch::Tensor hidden = wanted_rows(decoded(embedded, context, places), input);
  if (input.targets.defined()) return linear_cross_entropy(hidden, head_, input.targets);
  const torch::Tensor logits = torch::mm(hidden, head_.t());
  return input.cu_lengths.defined() || input.wanted.defined()
             ? logits
             : logits.view({ids.size(0), ids.size(1), config().vocabulary});
}

std::vector<std::pair<std::string, torch::Tensor>> LanguageDecoder::named_weights() const {
  const auto own = BlockModel::named_weights();
  if (!is_nemotron()) return renamed(own, kGpt2Names);
  return renamed(with_torch_linears(own, config(), {".q_proj.", ".k_proj.", ".v_proj."}),
                 kNemotronNames);
}

Json LanguageDecoder::hugging_face_config() const {
  const ModelConfig& c = config();
  if (!c.mlp || !c.residual) return nullptr;
  Json common = {{"vocab_size", c.vocabulary},
                 {"bos_token_id", nullptr},
                 {"eos_token_id", nullptr},
                 {"initializer_range", c.init_std},
                 {"tie_word_embeddings", c.tied}};
  write_score(c, common);
  const bool is_gpt2 = c.positions == "learned" && c.norm == "layer" && c.linear_bias &&
                       c.key_value_heads() == c.heads;
  if (is_gpt2) {
    common.update(Json{{"architectures", Json::array({"GPT2LMHeadModel"})},
                       {"model_type", "gpt2"},
                       {"n_positions", c.max_positions},
                       {"n_embd", c.width},
                       {"n_layer", c.layers},
                       {"n_head", c.heads},
                       {"n_inner", c.hidden_width()},
                       {"activation_function", hugging_face_activation(c.activation)},
                       {"layer_norm_epsilon", c.norm_epsilon},
                       {"embd_pdrop", c.dropout},
                       {"attn_pdrop", c.dropout},
                       {"resid_pdrop", c.dropout}});
    return common;
  }
  // NemotronForCausalLM drops attention weights out, but not the rest.
  const bool is_nemotron = c.positions == "rope" && c.norm == "layer-1p" && c.dropout == 0;
  if (!is_nemotron) return nullptr;
  common.update(Json{{"architectures", Json::array({"NemotronForCausalLM"})},
                     {"model_type", "nemotron"},
                     {"hidden_size", c.width},
                     {"num_hidden_layers", c.layers},
                     {"num_attention_heads", c.heads},
                     {"num_key_value_heads", c.key_value_heads()},
                     {"head_dim", c.head_dim()},
                     {"intermediate_size", c.hidden_width()},
                     {"hidden_act", hugging_face_activation(c.activation)},
                     {"max_position_embeddings", c.max_positions},
                     {"norm_eps", c.norm_epsilon},
                     {"attention_bias", c.linear_bias},
                     {"mlp_bias", c.linear_bias},
                     {"rope_theta", kRotaryBase},
                     {"partial_rotary_factor", c.rotary_share},
                     {"rope_parameters",
                      {{"rope_type", "default"},
                       {"rope_theta", kRotaryBase},
                       {"partial_rotary_factor", c.rotary_share}}}});
  return common;
}

}  // namespace ssa
