// What flags accept. CLI11 alone would read 99999999999999999999 as the largest integer, and "nan"
// as a number of every range; of a mistyped name it would not say which was meant.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "config/suggestion.h"

namespace ssa {

/// Accepts a text that is a number of type T, all of it, and of which `accepts` holds; the message
/// says what was `expected`.
template <class T, class Accepts>
CLI::Validator number_check(const Accepts& accepts, const std::string& expected) {
  const auto refusal = [accepts, expected](const std::string& text) {
    T value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && accepts(value)) return std::string();
    return fmt::format("{}: expected {}", text, expected);
  };
  return CLI::Validator(refusal, "");
}

/// In [least, most].
inline CLI::Validator whole_number(std::int64_t least,
                                   std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  return number_check<std::int64_t>(
      [=](std::int64_t value) { return value >= least && value <= most; },
      fmt::format("a whole number from {} to {}", least, most));
}

/// In [least, most].
inline CLI::Validator number(double least, double most) {
  return number_check<double>([=](double value) { return value >= least && value <= most; },
                              fmt::format("a number from {} to {}", least, most));
}

/// In [0, 1).
inline CLI::Validator share() {
  return number_check<double>([](double value) { return value >= 0 && value < 1; },
                              "a share from 0 to less than 1");
}

/// No check: the values that the flag takes, for completion. Its name is the list.
inline CLI::Validator known_values(const std::vector<std::string>& values) {
  const auto accept = [](const std::string&) { return std::string(); };
  return CLI::Validator(accept, "", fmt::format("{}", fmt::join(values, ",")));
}

/// One of these names, which --help shows.
inline CLI::Validator one_of(std::vector<std::string> names) {
  const std::string listed = fmt::format("{}", fmt::join(names, ","));
  const std::string shown = "{" + listed + "}";
  const auto refusal = [names = std::move(names)](const std::string& text) {
    if (std::ranges::find(names, text) != names.end()) return std::string();
    return fmt::format("{}: expected one of {}{}", text, fmt::join(names, ", "),
                       did_you_mean(text, names));
  };
  return CLI::Validator(refusal, shown, listed);
}

}  // namespace ssa
