#include "generate/generation.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "model/key_value_cache.h"
#include "model/packed_tokens.h"
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

/// One text while it grows.
class GrowingText {
 public:
  using Show = std::function<bool(const std::string& piece)>;

  GrowingText(const ModelConfig& config, const Tokenizer& tokenizer,
              const std::vector<TokenId>& prompt, std::int64_t prompt_number,
              const GenerationOptions& options, Show show)
      : tokenizer_(tokenizer),
        options_(options),
        show_(std::move(show)),
        prompt_number_(prompt_number),
        start_(std::ssize(prompt)),
        most_(std::min(config.max_positions, start_ + options.most_tokens)),
        tokens_(prompt) {
    SSA_CHECK(start_ >= 1, "a prompt of at least one token is needed");
    SSA_CHECK(start_ <= config.max_positions,
              "the prompt has " << start_
                                << " tokens, but model.max_positions = " << config.max_positions);
    if (options.cache) cache_.emplace(config.layers, most_);
    text_.ending =
        most_ - start_ < options.most_tokens ? Ending::max_positions : Ending::most_tokens;
    ended_ = start_ == most_;
  }

  bool ended() const { return ended_; }
  const GeneratedText& text() const { return text_; }
  /// Null without.
  KeyValueCache* cache() { return cache_ ? &*cache_ : nullptr; }
  /// Those that the next pass must read.
  std::span<const TokenId> unread() const {
    return std::span(tokens_).subspan(cache_ ? cache_->length() : 0);
  }

  /// logits: (vocabulary), of what follows the last token.
  void go_on(const torch::Tensor& logits) {
    if (!torch::isfinite(logits).all().item<bool>()) {
      throw std::runtime_error(
          fmt::format("the model's logits after {} tokens are not finite", tokens_.size()));
    }
    const TokenId id = sample_token(logits, options_.sampling, prompt_number_, text_.tokens++);
    if (id == options_.end) return end(Ending::end_token);
    tokens_.push_back(id);
    text_.text = text_after(tokenizer_, tokens_, start_);
    const std::size_t stop = first_stop(text_.text, options_.stop);
    if (stop != text_.text.npos) {
      text_.text.resize(stop);
      return end(Ending::stop_text);
    }
    if (!give(text_.text.size() - unfinished(text_.text, options_.stop))) {
      return end(Ending::interrupted);
    }
    if (std::ssize(tokens_) == most_) end(text_.ending);
  }

 private:
  void end(Ending ending) {
    text_.ending = ending;
    ended_ = true;
    give(text_.text.size());
  }

  /// Shows up to that byte of the text.
  bool give(std::size_t to) {
    const bool go_on = to <= shown_ || !show_ || show_(text_.text.substr(shown_, to - shown_));
    shown_ = std::max(shown_, to);
    return go_on;
  }

  const Tokenizer& tokenizer_;
  const GenerationOptions& options_;
  Show show_;
  std::int64_t prompt_number_, start_, most_;
  std::vector<TokenId> tokens_;
  std::optional<KeyValueCache> cache_;
  GeneratedText text_;
  std::size_t shown_ = 0;
  bool ended_ = false;
};

/// Logits of what follows the last token of each, (texts, vocabulary), float32 on the CPU.
torch::Tensor next_logits(Model& model, std::span<GrowingText* const> texts) {
  PackedTokens packed;
  std::vector<KeyValueCache*> caches;
  for (GrowingText* text : texts) {
    const std::span<const TokenId> unread = text->unread();
    packed.tokens.insert(packed.tokens.end(), unread.begin(), unread.end());
    packed.end_sequence();
    packed.wanted.push_back(packed.cu_lengths.back() - 1);
    if (text->cache() != nullptr) caches.push_back(text->cache());
  }
  ModelInput input = packed.input();
  input.caches = std::move(caches);
  return model.forward(input).to(torch::kCPU, torch::kFloat32);
}

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

std::vector<GeneratedText> generate(
    Model& model, const ModelConfig& config, const Tokenizer& tokenizer,
    std::span<const std::vector<TokenId>> prompts, std::int64_t first_number,
    const GenerationOptions& options,
    const std::function<bool(std::size_t prompt, const std::string& piece)>& show) {
  const torch::NoGradGuard no_gradient;
  model.eval();
  // Models are often given more ids than their tokenizer has.
  const std::int64_t ids = std::min<std::int64_t>(config.vocabulary, tokenizer.size());
  std::vector<std::unique_ptr<GrowingText>> texts;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    texts.push_back(std::make_unique<GrowingText>(
        config, tokenizer, prompts[i], first_number + static_cast<std::int64_t>(i), options,
        show ? [&show, i](const std::string& piece) { return show(i, piece); }
             : GrowingText::Show()));
  }
  std::vector<GrowingText*> growing;
  for (const auto& text : texts) growing.push_back(text.get());
  while (std::erase_if(growing, [](const GrowingText* text) { return text->ended(); }),
         !growing.empty()) {
    const torch::Tensor logits = next_logits(model, growing).narrow(1, 0, ids);
    for (std::size_t i = 0; i < growing.size(); ++i) {
      growing[i]->go_on(logits[static_cast<std::int64_t>(i)]);
    }
  }
  std::vector<GeneratedText> out;
  for (const auto& text : texts) out.push_back(text->text());
  return out;
}

}  // namespace ssa
