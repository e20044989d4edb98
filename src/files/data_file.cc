#include "files/data_file.h"

#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>

#include "config/suggestion.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

/// The folder that SSA_DATA names; empty if it is not set.
fs::path data_folder() {
  const char* chosen = std::getenv("SSA_DATA");
  return chosen == nullptr ? "" : chosen;
}

}  // namespace

fs::path find_data(const std::string& name, const std::string& origin) {
  if (!name.empty() && fs::exists(name)) return name;
  const fs::path folder = data_folder();
  const auto refuse = [&](const std::string& elsewhere) {
    std::string meant = did_you_mean(fs::path(name));
    if (meant.empty() && !folder.empty()) meant = did_you_mean(folder / name);
    if (meant.empty() && !elsewhere.empty()) {
      meant = "; `ssa data fetch --list` lists data sets that can be fetched";
    }
    throw std::runtime_error(
        fmt::format("{}: \"{}\": no such file or folder{}{}", origin, name, elsewhere, meant));
  };
  if (name.empty() || fs::path(name).is_absolute()) refuse("");
  if (folder.empty()) {
    refuse(
        "; it is also looked for in the folder that the environment variable SSA_DATA names, which "
        "is not set");
  }
  if (!fs::exists(folder / name)) {
    refuse(fmt::format(", nor is there \"{}\" (SSA_DATA)", (folder / name).string()));
  }
  return folder / name;
}

}  // namespace ssa
