// The three properties of characters that tokenizers need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "files/utf8.h"

namespace ssa {

/// L*, N*, White_Space and everything else. The first three are disjoint.
enum class CharClass : std::uint8_t { letter, number, space, other };

/// Of Unicode 16, whatever utf8proc knows.
CharClass char_class(char32_t code_point);

/// Every character of valid UTF-8 by itself in lower case (Unicode 17): Σ becomes σ also at the end
/// of a word, İ becomes i and U+0307. So does the normalizer Lowercase of Hugging Face's
/// tokenizers.
std::string lowercase(std::string_view text);

}  // namespace ssa
