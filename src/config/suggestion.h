// What a mistyped name or path was meant to be: one rule for commands, flags, values, names and
// paths.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace ssa {

/// The known name with the fewest edits (letters put in, left out, replaced, or swapped with their
/// neighbour) to `name`, capitals aside; before all others one that begins with `name`. "" where
/// none resembles it: more than a third of the letters are edits.
std::string nearest_name(std::string_view name, std::span<const std::string> known);

/// "; did you mean X?" with X between `before` and `after`; "" where no known name resembles
/// `name`.
std::string did_you_mean(std::string_view name, std::span<const std::string> known,
                         std::string_view before = "", std::string_view after = "");

/// The same for a path that is not there, from what lies in the folders that are.
std::string did_you_mean(const std::filesystem::path& missing);

}  // namespace ssa
