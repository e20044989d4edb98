// The table of model presets.
#include "config/config.h"

namespace ssa {
namespace {

/// RoBERTa (Liu et al. 2019) with BabyBERTa's pad id. max_positions counts tokens: the table has
/// pad_id + 1 rows more, as RoBERTa's max_position_embeddings (130 for 128) counts them.
Json babyberta(int layers, int heads, int width, int vocabulary, int max_positions) {
  return {{"family", "roberta"},  {"layers", layers},
          {"heads", heads},       {"width", width},
          {"activation", "gelu"}, {"norm_place", "after"},
          {"causal", false},      {"max_positions", max_positions},
          {"input", "tokens"},    {"vocabulary", vocabulary},
          {"pad_id", 1},          {"token_types", 2},
          {"dropout", 0.1}};
}

/// BERT (Devlin et al. 2019): positions count from 0.
Json bert(int layers, int heads, int width, int vocabulary, int max_positions) {
  Json values = babyberta(layers, heads, width, vocabulary, max_positions);
  values["family"] = "bert";
  values["pad_id"] = 0;
  return values;
}

/// NVIDIA's Nemotron blocks (Parmar et al. 2024, arXiv 2402.16819), with one set of score
/// parameters a layer as in the paper's decoder.
Json nemotron(int layers, int heads, int kv_heads, int width, int vocabulary, int max_positions) {
  return {{"family", "nemotron"},
          {"layers", layers},
          {"heads", heads},
          {"kv_heads", kv_heads},
          {"width", width},
          {"activation", "relu-squared"},
          {"biases", "none"},
          {"norm", "layer-1p"},
          {"positions", "rope"},
          {"rotary_share", 0.5},
          {"max_positions", max_positions},
          {"input", "tokens"},
          {"vocabulary", vocabulary},
          {"init_std", 0.0134},
          {"score_share", "layer"}};
}

Json gpt2(int layers, int heads, int width, int vocabulary, int max_positions) {
  return {{"family", "gpt2"},
          {"layers", layers},
          {"heads", heads},
          {"width", width},
          {"max_positions", max_positions},
          {"input", "tokens"},
          {"vocabulary", vocabulary}};
}

/// Llama's blocks (Touvron et al. 2023, arXiv 2302.13971): RMSNorm, SwiGLU, rotary positions.
Json llama(int layers, int heads, int kv_heads, int width, int mlp_width, int vocabulary,
           int max_positions) {
  return {{"family", "llama"},    {"layers", layers},        {"heads", heads},
          {"kv_heads", kv_heads}, {"width", width},          {"mlp_width", mlp_width},
          {"mlp_gate", true},     {"activation", "silu"},    {"biases", "none"},
          {"norm", "rms"},        {"positions", "rope"},     {"max_positions", max_positions},
          {"input", "tokens"},    {"vocabulary", vocabulary}};
}

}  // namespace

std::span<const Preset> presets() {
  static const std::vector<Preset> table = {
      {"gpt2-icl", "GPT-2 blocks as in the paper: 12 layers, 8 heads, width 256", Json::object()},
      {"gpt2-icl-small",
       "GPT-2 blocks: 6 layers, 4 heads, width 128",
       {{"layers", 6}, {"heads", 4}, {"width", 128}}},
      {"gpt2-icl-tiny",
       "GPT-2 blocks: 3 layers, 4 heads, width 64",
       {{"layers", 3}, {"heads", 4}, {"width", 64}}},
      {"attention-only",
       "12 layers, 8 heads, width 256 without MLP and norm",
       {{"mlp", false}, {"norm", "none"}}},
      {"attention-only-small",
       "6 layers, 4 heads, width 128 without MLP and norm",
       {{"layers", 6}, {"heads", 4}, {"width", 128}, {"mlp", false}, {"norm", "none"}}},
      {"attention-only-tiny",
       "3 layers, 4 heads, width 64 without MLP and norm",
       {{"layers", 3}, {"heads", 4}, {"width", 64}, {"mlp", false}, {"norm", "none"}}},
      {"attention-only-no-residual-tiny",
       "the same without residual connections",
       {{"layers", 3},
        {"heads", 4},
        {"width", 64},
        {"mlp", false},
        {"norm", "none"},
        {"residual", false}}},
      {"babyberta",
       "RoBERTa blocks as BabyBERTa has them: 8 layers, 8 heads, width 256, 8192 tokens",
       babyberta(8, 8, 256, 8192, 128)},
      {"babyberta-tiny", "RoBERTa blocks: 2 layers, 2 heads, width 32, 128 tokens",
       babyberta(2, 2, 32, 128, 32)},
      {"nemotron-114m",
       "Nemotron blocks as in the paper: 12 layers, 24 heads (8 of keys), width 768, 50256 tokens",
       nemotron(12, 24, 8, 768, 50256, 1024)},
      {"nemotron-small", "Nemotron blocks: 6 layers, 8 heads (4 of keys), width 256, 8192 tokens",
       nemotron(6, 8, 4, 256, 8192, 256)},
      {"nemotron-tiny", "Nemotron blocks: 2 layers, 4 heads (2 of keys), width 32, 256 tokens",
       nemotron(2, 4, 2, 32, 256, 64)},
      {"gpt2-124m", "GPT-2's smallest model: 12 layers, 12 heads, width 768, 50257 tokens",
       gpt2(12, 12, 768, 50257, 1024)},
      {"gpt2-tiny", "GPT-2 blocks over tokens: 2 layers, 2 heads, width 32, 256 tokens",
       gpt2(2, 2, 32, 256, 64)},
      {"llama-135m",
       "Llama's blocks in SmolLM2-135M's size: 30 layers, 9 heads (3 of keys), width 576, "
       "49152 tokens",
       llama(30, 9, 3, 576, 1536, 49152, 2048)},
      {"llama-small", "Llama's blocks: 6 layers, 8 heads (4 of keys), width 256, 8192 tokens",
       llama(6, 8, 4, 256, 704, 8192, 256)},
      {"llama-tiny", "Llama's blocks: 2 layers, 4 heads (2 of keys), width 32, 256 tokens",
       llama(2, 4, 2, 32, 96, 256, 64)},
      {"bert-tiny", "BERT's blocks: 2 layers, 2 heads, width 32, 128 tokens",
       bert(2, 2, 32, 128, 32)},
  };
  return table;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  return names;
}

}  // namespace ssa
