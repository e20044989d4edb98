// Numbers in messages.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace ssa {

/// "1 document", "2 documents", "2 processes"
template <std::integral Number>
std::string counted(Number count, std::string_view what) {
  const char* ending = what.ends_with('s') ? "es" : "s";
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : ending);
}

}  // namespace ssa
