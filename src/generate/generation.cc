#include "generate/generation.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "model/key_value_cache.h"
#include "ssa/check.h"
#include "ssa/philox.h"
#include "ssa/random.h"

namespace ssa {
namespace {

/// Bytes at the end of `text` that may yet become part of something else: an unfinished character,
/// for which decode() puts U+FFFD, or the beginning of a stop text.
std::size_t unfinished(const std::string& text, const std::vector<std::string>& stop) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::size_t held = text.ends_with(kReplacement) ? kReplacement.size() : 0;
  for (const std::string& end : stop) {
    for (std::size_t part = std::min(end.size() - 1, text.size()); part > held; --part) {
      if (text.ends_with(end.substr(0, part))) held = part;
    }
  }
  return held;
}

std::size_t first_stop(const std::string& text, const std::vector<std::string>& stop) {
  std::size_t first = text.npos;
  for (const std::string& end : stop) first = std::min(first, text.find(end));
  return first;
}

/// The text of the tokens from `start` on. As a part of the whole: SentencePiece drops the space
/// before a text's first word. By themselves where the prompt ends within a character.
std::string text_after(const Tokenizer& tokenizer, std::span<const TokenId> tokens,
                       std::int64_t start) {
  const std::string before = tokenizer.decode(tokens.first(start), /*skip_special_tokens=*/true);
  const std::string all = tokenizer.decode(tokens, /*skip_special_tokens=*/true);
  return all.starts_with(before) ? all.substr(before.size())
                                 : tokenizer.decode(tokens.subspan(start), true);
}

/// Logits of what follows the last token, (vocabulary), float32 on the CPU.
class NextLogits {
 public:
  NextLogits(Model& model, const ModelConfig& config, bool cached, std::int64_t capacity)
      : model_(model) {
    if (cached) cache_.emplace(config.layers, capacity);
  }

  torch::Tensor after(std::span<const TokenId> tokens) {
    const std::int64_t known = cache_ ? cache_->length() : 0;
    const std::vector<std::int64_t> ids(tokens.begin() + known, tokens.end());
    const auto count = static_cast<std::int64_t>(ids.size());
    ModelInput input(torch::tensor(ids, torch::kLong).unsqueeze(0));
    input.wanted = torch::tensor({count - 1}, torch::kLong);
    input.cache = cache_ ? &*cache_ : nullptr;
    return model_.forward(input)[0].to(torch::kCPU, torch::kFloat32);
  }

 private:
  Model& model_;
  std::optional<KeyValueCache> cache_;
};

}  // namespace

TokenId sample_token(const torch::Tensor& logits, const Sampling& sampling, std::int64_t prompt,
                     std::int64_t place) {
  if (sampling.temperature == 0) return static_cast<TokenId>(logits.argmax().item<std::int64_t>());
  const std::int64_t vocabulary = logits.numel();
  const std::int64_t kept = sampling.top_k == 0 ? vocabulary : std::min(sampling.top_k, vocabulary);
  const auto [values, ids] =
      torch::topk(logits.to(torch::kFloat64) / sampling.temperature, kept);  // largest first
  const torch::Tensor sums = torch::softmax(values, 0).cumsum(0).contiguous();
  const std::span<const double> sum(sums.const_data_ptr<double>(), static_cast<std::size_t>(kept));
  // The tokens before which less than top_p is reached.
  const auto last = std::ranges::lower_bound(sum, sampling.top_p * sum.back());
  const std::size_t count = std::min<std::size_t>(last - sum.begin() + 1, sum.size());
  const PhiloxWords words = philox4x32(
      sampling.seed, {static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(prompt), 0,
                      static_cast<std::uint32_t>(RandomStream::generation)});
  const double drawn = philox_unit(words[0]) * sum[count - 1];
  const auto at = std::ranges::upper_bound(sum.first(count), drawn) - sum.begin();
  return static_cast<TokenId>(
      ids[std::min<std::int64_t>(at, static_cast<std::int64_t>(count) - 1)].item<std::int64_t>());
}

const char* ending_name(Ending ending) {
  switch (ending) {
    case Ending::end_token:
      return "end token";
    case Ending::stop_text:
      return "stop text";
    case Ending::most_tokens:
      return "most tokens";
    case Ending::max_positions:
      return "max_positions";
    case Ending::interrupted:
      return "interrupted";
  }
  return "";
}

GeneratedText generate(Model& model, const ModelConfig& config, const Tokenizer& tokenizer,
                       std::span<const TokenId> prompt, std::int64_t prompt_number,
                       const GenerationOptions& options,
                       const std::function<bool(const std::string& piece)>& show) {
  const auto start = static_cast<std::int64_t>(prompt.size());
  SSA_CHECK(start >= 1, "a prompt of at least one token is needed");
  SSA_CHECK(
      start <= config.max_positions,
      "the prompt has " << start << " tokens, but model.max_positions = " << config.max_positions);
  const torch::NoGradGuard no_gradient;
  model.eval();
  const std::int64_t most = std::min(config.max_positions, start + options.most_tokens);
  // Models are often given more ids than their tokenizer has.
  const std::int64_t ids = std::min<std::int64_t>(config.vocabulary, tokenizer.size());
  NextLogits next(model, config, options.cache, most);
  std::vector<TokenId> tokens(prompt.begin(), prompt.end());
  GeneratedText out;
  std::size_t shown = 0;
  const auto give = [&](std::size_t end) {  // up to that byte of the text
    const bool go_on = end <= shown || !show || show(out.text.substr(shown, end - shown));
    shown = std::max(shown, end);
    return go_on;
  };
  out.ending = most - start < options.most_tokens ? Ending::max_positions : Ending::most_tokens;
  while (static_cast<std::int64_t>(tokens.size()) < most) {
    const torch::Tensor logits = next.after(tokens).narrow(0, 0, ids);
    if (!torch::isfinite(logits).all().item<bool>()) {
      throw std::runtime_error(
          fmt::format("the model's logits after {} tokens are not finite", tokens.size()));
    }
    const TokenId id = sample_token(logits, options.sampling, prompt_number, out.tokens++);
    if (id == options.end) {
      out.ending = Ending::end_token;
      break;
    }
    tokens.push_back(id);
    out.text = text_after(tokenizer, tokens, start);
    const std::size_t stop = first_stop(out.text, options.stop);
    if (stop != out.text.npos) {
      out.text.resize(stop);
      out.ending = Ending::stop_text;
      break;
    }
    if (!give(out.text.size() - unfinished(out.text, options.stop))) {
      out.ending = Ending::interrupted;
      break;
    }
  }
  give(out.text.size());
  return out;
}

}  // namespace ssa
