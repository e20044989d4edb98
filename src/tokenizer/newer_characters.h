// Characters that are newer than the Unicode of the library that looks at them. Ids must not depend
// on the version of a library, and are those of Hugging Face's tokenizers, each part of which keeps
// to the version of Unicode that it was written with.
#pragma once

#include <string>
#include <string_view>

namespace ssa {

/// For regular expressions, which know Unicode 16 there and 14 in Debian 12's PCRE2: where the text
/// (valid UTF-8) has characters that came in between, `replaced` becomes the text with older ones
/// of the same category and length in their place, so that every offset stays.
bool replace_newer_characters(std::string_view text, std::string& replaced);

/// What BertNormalizer takes for a mark without width (Unicode 8), a character that is no text
/// (Cc, Cf, Co of Unicode 8), and what it and Punctuation take for punctuation.
bool is_bert_mark(char32_t code_point);
bool is_bert_control(char32_t code_point);
bool is_bert_punctuation(char32_t code_point);

/// What Digits takes for a number (Unicode 17).
bool is_numeric(char32_t code_point);

/// What StripAccents takes for a mark (Unicode 9).
bool is_accent(char32_t code_point);

/// Whether the normal forms (Unicode 9) know neither a decomposition nor a combining class of it,
/// though later versions have one.
bool is_newer_than_normal_forms(char32_t code_point);

}  // namespace ssa
