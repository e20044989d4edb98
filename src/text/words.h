// Words as white space separates them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace ssa {

inline std::int64_t count_words(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\v\f";
  std::int64_t words = 0;
  for (std::size_t at = text.find_first_not_of(kSpace); at != text.npos; ++words) {
    at = text.find_first_not_of(kSpace, std::min(text.find_first_of(kSpace, at), text.size()));
  }
  return words;
}

}  // namespace ssa
