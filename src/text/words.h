// White space and the words that it separates, as Python's str.split() and str.rstrip() have them.
#pragma once

#include <cstdint>
#include <string_view>

namespace ssa {

/// Unicode's White_Space, and U+001C to U+001F, which Python counts in.
bool is_white_space(char32_t code_point);

/// Of valid UTF-8; what is not valid belongs to a word.
std::int64_t count_words(std::string_view text);

/// Whether there is nothing but white space.
bool is_blank(std::string_view text);

/// The text without the white space at its end.
std::string_view without_space_behind(std::string_view text);
/// … at its start.
std::string_view without_space_before(std::string_view text);

}  // namespace ssa
