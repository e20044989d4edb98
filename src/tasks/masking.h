// Which tokens a masked language model has to guess, and what it sees in their place.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "config/choices.h"
#include "model/packed_tokens.h"
#include "ssa/random.h"
#include "tokenizer/tokenizer.h"

namespace ssa {

/// Of the tokens that are chosen, `random` become another token, `kept` stay and the others become
/// the mask token; the shares are of 1.
struct MaskingRecipe {
  double random = 0, kept = 0;
  bool redraw_empty = false;       ///< until at least one token is chosen
  std::int64_t most_patterns = 0;  ///< drawn before training; 0: a new one in every pass
  TokenId first_random = 0;        ///< the least id that stands in for a token

  /// Patterns of a sentence of that many maskable tokens: at most the number of ways to choose two
  /// of them (one of one).
  std::int64_t patterns(std::int64_t maskable) const;
};

/// babyberta: 90 % masked, 10 % random, up to 10 patterns (Huebner, Sulem, Fisher, Roth 2021, and
/// the code of phueb/BabyBERTa: ids 0 to 5 never stand in). roberta: 80 / 10 / 10, anew in every
/// pass, every id may stand in (Devlin et al. 2019, Liu et al. 2019, and Hugging Face's collator).
MaskingRecipe masking_recipe(Masking masking);

/// What the masks are drawn from and for.
class Masker {
 public:
  /// Takes the mask and special tokens from the tokenizer, which must outlive it; special tokens
  /// are never chosen. Throws std::invalid_argument if it has no token "<mask>", or none that may
  /// stand in.
  Masker(const MaskingRecipe& recipe, double probability, const Tokenizer& tokenizer,
         std::uint64_t seed, RandomStream stream);

  /// Tokens of the sentence that may be chosen.
  std::int64_t maskable(std::span<const TokenId> sentence) const;

  /// Appends the sentence as the model sees it, with every chosen token wanted and its id a target.
  /// A pure function of (seed, stream, sentence number, view). At least one token must be maskable.
  void append(std::span<const TokenId> sentence, std::int64_t number, std::int64_t view,
              PackedTokens& packed) const;

 private:
  MaskingRecipe recipe_;
  double probability_;
  const Tokenizer& tokenizer_;
  TokenId mask_ = 0;
  std::uint64_t seed_;
  std::uint32_t stream_;
};

}  // namespace ssa
