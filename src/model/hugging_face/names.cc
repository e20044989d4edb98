#include "model/hugging_face/names.h"

#include <torch/types.h>

#include <algorithm>

namespace ssa {
namespace {

std::string replaced(std::string text, std::string_view part, std::string_view by) {
  const std::size_t at = text.find(part);
  return at == text.npos ? text : text.replace(at, part.size(), by);
}

/// Vectors by token, position or type, which have the same layout everywhere.
bool is_embedding(const std::string& name) {
  return name == "wte.weight" || name == "wpe.weight" || name == "wtt.weight" ||
         name == "lm_head.weight";
}

}  // namespace

std::vector<NamePart> llama_names() {
  return {{"wte.", "model.embed_tokens."},
          {"h.", "model.layers."},
          {"ln_f.", "model.norm."},
          {".ln_1.", ".input_layernorm."},
          {".attn.c_proj.", ".self_attn.o_proj."},
          {".attn.", ".self_attn."},
          {".ln_2.", ".post_attention_layernorm."},
          {".mlp.c_gate.", ".mlp.gate_proj."},
          {".mlp.c_fc.", ".mlp.up_proj."},
          {".mlp.c_proj.", ".mlp.down_proj."}};
}

NamedWeights renamed(const NamedWeights& weights, std::span<const NamePart> parts) {
  NamedWeights out;
  for (auto [name, weight] : weights) {
    for (const auto& [ours, theirs] : parts) name = replaced(name, ours, theirs);
    out.emplace_back(name, weight);
  }
  return out;
}

NamedWeights with_torch_linears(const NamedWeights& weights, const ModelConfig& config,
                                std::span<const std::string_view> query_key_value) {
  const std::int64_t query_width = config.heads * config.head_dim();
  const std::int64_t key_width = config.key_value_heads() * config.head_dim();
  NamedWeights out;
  const auto add = [&](const std::string& name, const torch::Tensor& weight) {
    const bool of_linear = weight.dim() == 2 && !is_embedding(name);
    out.emplace_back(name, of_linear ? weight.detach().t() : weight);
  };
  for (const auto& [name, weight] : weights) {
    if (name.find(".c_attn.") == name.npos) {
      add(name, weight);
      continue;
    }
    const auto parts = weight.detach().split_with_sizes({query_width, key_width, key_width}, -1);
    for (std::size_t i = 0; i < 3; ++i) {
      add(replaced(name, ".c_attn.", query_key_value[i]), parts[i]);
    }
  }
  return out;
}

}  // namespace ssa
