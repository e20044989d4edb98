#include "tasks/masking.h"

#include <algorithm>

#include "ssa/check.h"

namespace ssa {

std::int64_t MaskingRecipe::patterns(std::int64_t maskable) const {
  const std::int64_t pairs = maskable < 2 ? maskable : maskable * (maskable - 1) / 2;
  return std::min(most_patterns, pairs);
}

MaskingRecipe masking_recipe(Masking masking) {
  switch (masking) {
    case Masking::babyberta:
      return {.random = 0.1, .redraw_empty = true, .most_patterns = 10, .first_random = 6};
    case Masking::roberta:
      return {.random = 0.1, .kept = 0.1};
  }
  SSA_CHECK(false, "a masking without a recipe");
  return {};
}

Masker::Masker(const MaskingRecipe& recipe, double probability, const Tokenizer& tokenizer,
               std::uint64_t seed, RandomStream stream)
    : recipe_(recipe),
      probability_(probability),
      tokenizer_(tokenizer),
      seed_(seed),
      stream_(static_cast<std::uint32_t>(stream)) {
  const auto mask = tokenizer.find("<mask>");
  SSA_CHECK(mask, "the tokenizer has no token \"<mask>\", which a masked language model needs");
  SSA_CHECK(recipe_.first_random < tokenizer.size(),
            "no token may stand in for another: the vocabulary has "
                << tokenizer.size() << " ids, and those below " << recipe_.first_random
                << " do not");
  mask_ = *mask;
}

std::int64_t Masker::maskable(std::span<const TokenId> sentence) const {
  return std::ranges::count_if(sentence, [&](TokenId id) { return !tokenizer_.is_special(id); });
}

void Masker::append(std::span<const TokenId> sentence, std::int64_t number, std::int64_t view,
                    PackedTokens& packed) const {
  const std::size_t first = packed.tokens.size(), before = packed.wanted.size();
  const auto others = static_cast<std::uint64_t>(tokenizer_.size() - recipe_.first_random);
  // The high bits of word 3 count the attempts at a pattern that is not empty.
  for (std::uint32_t attempt = 0;; ++attempt) {
    packed.tokens.resize(first);
    for (std::size_t i = 0; i < sentence.size(); ++i) {
      const TokenId id = sentence[i];
      packed.tokens.push_back(id);
      if (tokenizer_.is_special(id)) continue;
      const PhiloxWords words =
          philox4x32(seed_, {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(number),
                             static_cast<std::uint32_t>(view), stream_ | attempt << 8});
      if (philox_unit(words[0]) >= probability_) continue;
      packed.wanted.push_back(static_cast<std::int64_t>(packed.tokens.size()) - 1);
      packed.targets.push_back(id);
      const double share = philox_unit(words[1]);
      if (share < recipe_.random) {
        packed.tokens.back() =
            recipe_.first_random + static_cast<std::int64_t>((words[2] * others) >> 32);
      } else if (share >= recipe_.random + recipe_.kept) {
        packed.tokens.back() = mask_;
      }
    }
    if (packed.wanted.size() > before || !recipe_.redraw_empty) break;
  }
  packed.end_sequence();
}

}  // namespace ssa
