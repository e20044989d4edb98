#include "model/language_decoder.h"

#include <torch/types.h>

#include "model/cross_entropy.h"
#include "model/device.h"
#include "model/embedding.h"
#include "model/key_value_cache.h"
#include "model/product.h"
#include "model/token_input.h"
#include "ssa/check.h"

namespace ssa {
namespace {

/// Tokens that the caches hold: int64 (sequences), zeros without caches.
torch::Tensor lengths_before(const ModelInput& input) {
  const std::int64_t sequences = input.cu_lengths.size(0) - 1;
  if (input.caches.empty()) return torch::zeros({sequences}, torch::kLong);
  SSA_CHECK(std::ssize(input.caches) == sequences, "model: " << input.caches.size()
                                                             << " key/value caches for "
                                                             << sequences << " packed sequences");
  std::vector<std::int64_t> lengths;
  for (const KeyValueCache* cache : input.caches) lengths.push_back(cache->length());
  return torch::tensor(lengths, torch::kLong);
}

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

torch::Tensor LanguageDecoder::hidden(const ModelInput& input) {
  const torch::Tensor& ids = input.tokens;
  SSA_CHECK(ids.scalar_type() == torch::kLong,
            "model: token ids must be int64, not " << ids.scalar_type());
  check_range("token id", ids, config().vocabulary, "model.vocabulary");
  SequenceContext context{.batch = 1, .length = ids.numel(), .caches = input.caches};
  torch::Tensor places;
  if (input.cu_lengths.defined()) {
    check_packed(ids, input.cu_lengths);
    const torch::Tensor lengths = input.cu_lengths.diff(), before = lengths_before(input);
    check_longest(before + lengths, config().max_positions);
    context.cu_lengths = input.cu_lengths.contiguous();
    places =
        on_device(places_of_packed(input.cu_lengths) + torch::repeat_interleave(before, lengths),
                  tokens_.device());
  } else {
    SSA_CHECK(input.caches.empty(), "model: a key/value cache goes with packed sequences");
    SSA_CHECK(
        ids.dim() == 2,
        "model: token ids of shape (batch, tokens) expected, or (tokens) with cu_lengths, not "
            << ids.sizes());
    context.batch = ids.size(0);
    context.length = ids.size(1);
  }
  const torch::Tensor embedded =
      torch::embedding(tokens_, on_device(ids.flatten(), tokens_.device()));
  const torch::Tensor all = decoded(embedded, context, places);
  const torch::Tensor lengths = input.caches.empty() ? torch::Tensor() : input.cu_lengths.diff();
  for (std::size_t s = 0; s < input.caches.size(); ++s) {
    input.caches[s]->advance(lengths[static_cast<std::int64_t>(s)].item<std::int64_t>());
  }
  return wanted_rows(all, input);
}

torch::Tensor LanguageDecoder::logits(const torch::Tensor& hidden) {
  return product_with_table(hidden, head_);
}

torch::Tensor LanguageDecoder::losses(const torch::Tensor& hidden, const torch::Tensor& targets) {
  return linear_cross_entropy(hidden, head_, targets);
}

}  // namespace ssa
