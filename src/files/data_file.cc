#include "files/data_file.h"

#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>

namespace ssa {

std::filesystem::path find_data(const std::string& name, const std::string& origin) {
  namespace fs = std::filesystem;
  if (!name.empty() && fs::exists(name)) return name;
  const char* chosen = std::getenv("SSA_DATA");
  const fs::path folder = chosen == nullptr || *chosen == '\0' ? "../shared/data" : chosen;
  if (!name.empty() && fs::exists(folder / name)) return folder / name;
  throw std::runtime_error(fmt::format(
      "{}: there is neither \"{}\" nor \"{}\" (a path is also looked for in the folder that the "
      "environment variable SSA_DATA names)",
      origin, name, (folder / name).string()));
}

}  // namespace ssa
