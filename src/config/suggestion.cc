#include "config/suggestion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <numeric>
#include <system_error>
#include <vector>

namespace ssa {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShortestAbbreviation = 3;
constexpr std::size_t kMostEntries = 10'000;  ///< of a folder that are looked at

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

/// The edits from one to the other (optimal string alignment), one row of the table at a time:
/// row[j] = edits(from[0, i), to[0, j)).
std::size_t count_edits(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1), above(to.size() + 1), two_above;
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, row[j - 1] + 1, above[j] + 1});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        row[j] = std::min(row[j], two_above[j - 2] + 1);
      }
    }
    two_above = above;
    std::swap(above, row);
  }
  return above.back();
}

/// Names of what lies in the folder; hidden ones only for one that is hidden itself.
std::vector<std::string> entries_like(const fs::path& folder, const std::string& name) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end;
       !error && entry != end && names.size() < kMostEntries; entry.increment(error)) {
    const std::string found = entry->path().filename().string();
    if (found.starts_with(".") == name.starts_with(".")) names.push_back(found);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> known) {
  const std::string wanted = lower(name);
  const std::size_t letters =
      wanted.size() - std::min(wanted.find_first_not_of('-'), wanted.size());
  std::string best;
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  for (const std::string& candidate : known) {
    const std::string other = lower(candidate);
    std::size_t edits = count_edits(wanted, other);
    bool near = 3 * edits <= std::max(wanted.size(), other.size());
    if (letters >= kShortestAbbreviation && other.starts_with(wanted)) {
      edits = 0;
      near = true;
    }
    if (near && edits < fewest) {
      fewest = edits;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> known,
                         std::string_view before, std::string_view after) {
  const std::string nearest = nearest_name(name, known);
  return nearest.empty() ? "" : fmt::format("; did you mean {}{}{}?", before, nearest, after);
}

std::string did_you_mean(const fs::path& missing) {
  fs::path meant;
  std::error_code error;
  for (const fs::path& part : missing) {
    if (part.empty() || part == "/" || fs::exists(meant / part, error)) {
      meant /= part;
      continue;
    }
    const std::string nearest = nearest_name(part.string(), entries_like(meant, part.string()));
    if (nearest.empty()) return "";
    meant /= nearest;
  }
  return meant.empty() || meant == missing ? "" : fmt::format("; did you mean {}?", meant.string());
}

}  // namespace ssa
