#include "model/language_decoder.h"

#include <torch/torch.h>

#include "model/cross_entropy.h"
#include "model/device.h"
#include "model/embedding.h"
#include "model/token_input.h"
#include "ssa/check.h"

namespace ssa {
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
  SequenceContext context{.batch = 1, .length = ids.numel(), .cache = input.cache};
  torch::Tensor places;
  if (input.cu_lengths.defined()) {
    SSA_CHECK(input.cache == nullptr, "model: packed sequences have no cache");
    check_packed(ids, input.cu_lengths);
    check_longest(input.cu_lengths.diff(), config().max_positions);
    context.cu_lengths = input.cu_lengths;
    places = on_device(places_of_packed(input.cu_lengths), tokens_.device());
  } else {
    SSA_CHECK(
        ids.dim() == 2,
        "model: token ids of shape (batch, tokens) expected, or (tokens) with cu_lengths, not "
            << ids.sizes());
    context.batch = ids.size(0);
    context.length = ids.size(1);
  }
  const torch::Tensor embedded =
      torch::embedding(tokens_, on_device(ids.flatten(), tokens_.device()));
  return wanted_rows(decoded(embedded, context, places), input);
}

torch::Tensor LanguageDecoder::logits(const torch::Tensor& hidden) {
  return torch::mm(hidden, head_.t());
}

torch::Tensor LanguageDecoder::losses(const torch::Tensor& hidden, const torch::Tensor& targets) {
  return linear_cross_entropy(hidden, head_, targets);
}

}  // namespace ssa
