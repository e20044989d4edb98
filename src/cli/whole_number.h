// What integer flags accept. CLI11 alone would read 99999999999999999999 as the largest integer.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>

namespace ssa {

/// Accepts a whole number in [least, most]; the message says the range.
inline CLI::Validator whole_number(std::int64_t least,
                                   std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  const auto refusal = [least, most](const std::string& text) {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= least && value <= most)
      return std::string();
    return fmt::format("{}: expected a whole number from {} to {}", text, least, most);
  };
  return CLI::Validator(refusal, "");
}

}  // namespace ssa
