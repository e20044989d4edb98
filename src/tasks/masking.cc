#include "tasks/masking.h"

#include <algorithm>

#include "ssa/check.h"

namespace ssa {

std::int64_t MaskingRecipe::patterns(std::int64_t maskable) const {
  const std::int64_t pairs = maskable < 2 ? maskable : maskable * (maskable - 1) / 2;
  return std::min(most_patterns, pairs);
}

MaskingRecipe masking_recipe(const std::string& name) {
  if (name == "babyberta") {
    return {.random = 0.1, .redraw_empty = true, .most_patterns = 10, .first_random = 6};
  }
  SSA_CHECK(name == "roberta", "unknown masking \"" << name << "\": babyberta or roberta");
  return {.random = 0.1, .kept = 0.1};
}

Masker::Masker(const MaskingRecipe& recipe, double probability, const Tokenizer& tokenizer,
               std::uint64_t seed, RandomStream stream)
    : recipe_(recipe),
      probability_(probability),
      vocabulary_(tokenizer.size()),
      special_(tokenizer.size(), false),
      seed_(seed),
      stream_(static_cast<std::uint32_t>(stream)) {
  const auto mask = tokenizer.find("<mask>");
  SSA_CHECK(mask, "the tokenizer has no token \"<mask>\", which a masked language model needs");
  SSA_CHECK(recipe_.first_random < vocabulary_,
            "no token may stand in for another: the vocabulary has "
                << vocabulary_ << " ids, and those below " << recipe_.first_random << " do not");
  mask_ = *mask;
  for (const AddedToken& token : tokenizer.spec().added) special_[token.id] = token.special;
}

std::int64_t Masker::maskable(std::span<const TokenId> sentence) const {
  return std::ranges::count_if(sentence, [&](TokenId id) { return !special_[id]; });
}

void Masker::mask(std::span<const TokenId> sentence, std::int64_t number, std::int64_t view,
                  std::vector<std::int64_t>& inputs, std::vector<std::int64_t>& wanted,
                  std::vector<std::int64_t>& targets) const {
  const std::size_t first = inputs.size(), before = wanted.size();
  const auto others = static_cast<std::uint64_t>(vocabulary_ - recipe_.first_random);
  // The high bits of word 3 count the attempts at a pattern that is not empty.
  for (std::uint32_t attempt = 0;; ++attempt) {
    inputs.resize(first);
    for (std::size_t i = 0; i < sentence.size(); ++i) {
      const TokenId id = sentence[i];
      inputs.push_back(id);
      if (special_[id]) continue;
      const PhiloxWords words =
          philox4x32(seed_, {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(number),
                             static_cast<std::uint32_t>(view), stream_ | attempt << 8});
      if (philox_unit(words[0]) >= probability_) continue;
      wanted.push_back(static_cast<std::int64_t>(inputs.size()) - 1);
      targets.push_back(id);
      const double share = philox_unit(words[1]);
      if (share < recipe_.random) {
        inputs.back() = recipe_.first_random + static_cast<std::int64_t>((words[2] * others) >> 32);
      } else if (share >= recipe_.random + recipe_.kept) {
        inputs.back() = mask_;
      }
    }
    if (wanted.size() > before || !recipe_.redraw_empty) return;
  }
}

}  // namespace ssa
