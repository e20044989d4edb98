#include "model/hugging_face/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <stdexcept>

namespace ssa {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", file.string(), what));
}

bool is_no_weight(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".position_ids") || name.ends_with(".inv_freq");
}

/// The tied tensor of which a file may hold a second copy under that name; "" for others.
std::string tied_to(const std::string& name, const std::map<std::string, torch::Tensor>& wanted) {
  const std::pair<const char*, const char*> copies[] = {
      {"lm_head.weight", "transformer.wte.weight"},
      {"lm_head.weight", "model.embed_tokens.weight"},
      {"lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"},
      {"lm_head.decoder.bias", "lm_head.bias"}};
  for (const auto& [copy, original] : copies) {
    if (name == copy && !wanted.contains(copy) && wanted.contains(original)) return original;
  }
  return "";
}

std::string shape_text(const torch::Tensor& tensor) {
  return fmt::format("({})", fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "));
}

}  // namespace

void load_foreign_weights(const std::filesystem::path& file, const NamedTensors& tensors,
                          Model& model) {
  std::map<std::string, torch::Tensor> wanted, found;
  for (const auto& [name, weight] : model.named_weights()) wanted.emplace(name, weight);
  for (const auto& [name, tensor] : tensors) {
    const std::string longer = "transformer." + name;
    const std::string& key = !wanted.contains(name) && wanted.contains(longer) ? longer : name;
    if (!found.emplace(key, tensor).second) {
      fail(file, fmt::format("has \"{}\" with and without \"transformer.\"", key));
    }
  }
  const torch::NoGradGuard no_gradient;
  for (auto& [name, weight] : wanted) {
    const auto stored = found.find(name);
    if (stored == found.end()) fail(file, fmt::format("the model's \"{}\" is not in it", name));
    if (stored->second.sizes() != weight.sizes() || !stored->second.is_floating_point()) {
      fail(file, fmt::format("\"{}\" has shape {} and type {}, the model's has shape {}", name,
                             shape_text(stored->second),
                             c10::toString(stored->second.scalar_type()), shape_text(weight)));
    }
    if (!torch::isfinite(stored->second).all().item<bool>()) {
      fail(file, fmt::format("\"{}\" holds numbers that are not finite", name));
    }
    weight.copy_(stored->second);
  }
  for (const auto& [name, tensor] : found) {
    if (wanted.contains(name) || is_no_weight(name)) continue;
    const std::string original = tied_to(name, wanted);
    if (original.empty()) fail(file, fmt::format("the model has no weight \"{}\"", name));
    const auto other = found.find(original);
    if (!torch::equal(tensor, other->second)) {
      fail(file, fmt::format("\"{}\" differs from \"{}\", but config.json says that they are tied",
                             name, original));
    }
  }
}

}  // namespace ssa
