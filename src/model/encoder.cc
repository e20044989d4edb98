#include "model/encoder.h"

#include <torch/torch.h>

#include <array>
#include <string_view>

#include "model/initial_weights.h"
#include "ssa/check.h"

namespace ssa {
namespace {

/// Parts of our names and what stands for them in RobertaForMaskedLM's.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kNames = {{
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
}};

std::string replaced(std::string text, std::string_view part, std::string_view by) {
  const std::size_t at = text.find(part);
  return at == text.npos ? text : text.replace(at, part.size(), by);
}

/// The index of the first true element: "[3]", "[2, 5]".
std::vector<std::int64_t> first_true(const torch::Tensor& where) {
  const torch::Tensor index = where.nonzero()[0].contiguous();
  return {index.const_data_ptr<std::int64_t>(),
          index.const_data_ptr<std::int64_t>() + index.numel()};
}

void check_range(const char* what, const torch::Tensor& values, std::int64_t end,
                 const char* bound) {
  const torch::Tensor outside = (values < 0) | (values >= end);
  if (!outside.any().item<bool>()) return;
  const auto place = first_true(outside);
  SSA_CHECK(false, "model: " << what << ' ' << values.masked_select(outside)[0].item<std::int64_t>()
                             << " at " << torch::IntArrayRef(place) << ", but " << bound << " = "
                             << end);
}

}  // namespace

LanguageModelHead::LanguageModelHead(const ModelConfig& config)
    : dense_(register_module("dense", std::make_shared<Linear>(config.width, config.width))),
      layer_norm_(make_norm(config)) {
  if (!layer_norm_.is_empty()) register_module("layer_norm", layer_norm_);
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
  if (!ln_e_.is_empty()) register_module("ln_e", ln_e_);
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
  check_longest(lengths);
  return {ids.flatten(),
          (place * inside + config_.pad_id).flatten(),
          {.batch = ids.size(0), .length = ids.size(1), .key_lengths = lengths}};
}

Encoder::Rows Encoder::packed_rows(const torch::Tensor& ids,
                                   const torch::Tensor& cu_lengths) const {
  SSA_CHECK(ids.dim() == 1, "model: packed token ids of shape (tokens) expected, not "
                                << ids.sizes() << " (with cu_lengths)");
  SSA_CHECK(
      cu_lengths.dim() == 1 && cu_lengths.size(0) >= 1 && cu_lengths.scalar_type() == torch::kLong,
      "model: cu_lengths must be int64 of shape (sequences + 1), not "
          << cu_lengths.scalar_type() << " of shape " << cu_lengths.sizes());
  const torch::Tensor lengths = cu_lengths.diff();
  const torch::Tensor negative = lengths < 0;
  const std::int64_t first = cu_lengths[0].item<std::int64_t>();
  const std::int64_t last = cu_lengths[-1].item<std::int64_t>();
  SSA_CHECK(first == 0 && last == ids.size(0) && !negative.any().item<bool>(),
            "model: cu_lengths must rise from 0 to the number of tokens, "
                << ids.size(0) << ", but go from " << first << " to " << last
                << (first == 0 && last == ids.size(0) ? " and fall in between" : ""));
  const torch::Tensor padding = ids == config_.pad_id;
  if (padding.any().item<bool>()) {
    const auto where = first_true(padding);
    SSA_CHECK(false, "model: padding (token id " << config_.pad_id << ") at "
                                                 << torch::IntArrayRef(where)
                                                 << " of packed sequences, which have none");
  }
  check_longest(lengths);
  const torch::Tensor starts = torch::repeat_interleave(cu_lengths.slice(0, 0, -1), lengths);
  return {ids,
          torch::arange(ids.size(0), ids.options()) - starts + (config_.pad_id + 1),
          {.batch = 1, .length = ids.size(0), .cu_lengths = cu_lengths}};
}

void Encoder::check_longest(const torch::Tensor& lengths) const {
  const std::int64_t longest = lengths.numel() == 0 ? 0 : lengths.max().item<std::int64_t>();
  SSA_CHECK(longest <= config_.max_positions,
            "model: a sequence of "
                << longest << " tokens, but model.max_positions = " << config_.max_positions);
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
  const std::int64_t all = rows.ids.size(0);

  torch::Tensor hidden = through_blocks(embedded(rows), rows.context);
  if (input.wanted.defined()) {
    SSA_CHECK(input.wanted.dim() == 1 && input.wanted.scalar_type() == torch::kLong,
              "model: wanted must be int64 of one dimension, not "
                  << input.wanted.scalar_type() << " of shape " << input.wanted.sizes());
    check_range("wanted token", input.wanted, all, "the number of tokens");
    return lm_head_->forward(hidden.index_select(0, input.wanted), tokens_);
  }
  const torch::Tensor logits = lm_head_->forward(hidden, tokens_);
  return packed ? logits : logits.view({ids.size(0), ids.size(1), config_.vocabulary});
}

std::vector<std::pair<std::string, torch::Tensor>> Encoder::named_weights() const {
  const std::int64_t query_width = config_.heads * config_.head_dim();
  const std::int64_t key_width = config_.key_value_heads() * config_.head_dim();
  std::vector<std::pair<std::string, torch::Tensor>> out;
  const auto add = [&](const std::string& name, const torch::Tensor& weight) {
    const bool of_linear = weight.dim() == 2 && name.find("embeddings.") == name.npos;
    out.emplace_back(name, of_linear ? weight.detach().t() : weight);
  };
  for (const auto& [own, weight] : BlockModel::named_weights()) {
    std::string name = own;
    for (const auto& [ours, theirs] : kNames) name = replaced(name, ours, theirs);
    if (name.find(".c_attn.") == name.npos) {
      add(name, weight);
      continue;
    }
    const auto parts = weight.detach().split_with_sizes({query_width, key_width, key_width}, -1);
    const std::array<const char*, 3> of = {".query.", ".key.", ".value."};
    for (std::size_t i = 0; i < 3; ++i) add(replaced(name, ".c_attn.", of[i]), parts[i]);
  }
  return out;
}

Json Encoder::hugging_face_config() const {
  const ModelConfig& c = config_;
  const bool is_roberta = c.score == "softmax" && c.mlp && c.norm == "layer" && c.residual &&
                          !c.causal && c.token_types > 0 && c.key_value_heads() == c.heads;
  if (!is_roberta) return nullptr;
  // The model knows no ids of beginning and end; Hugging Face's defaults would be other tokens.
  return {{"architectures", Json::array({"RobertaForMaskedLM"})},
          {"model_type", "roberta"},
          {"vocab_size", c.vocabulary},
          {"hidden_size", c.width},
          {"num_hidden_layers", c.layers},
          {"num_attention_heads", c.heads},
          {"intermediate_size", c.hidden_width()},
          {"hidden_act", c.activation == "gelu" ? "gelu" : "gelu_new"},
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
}

}  // namespace ssa
