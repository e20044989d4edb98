// Where files of data lie that a config names.
#pragma once

#include <filesystem>
#include <string>

namespace ssa {

/// `name` as it stands where there is such a file or folder, else below the folder of the
/// environment variable SSA_DATA, if that is set. Throws std::runtime_error beginning with `origin`
/// ("task.text") and naming every place if it is in none.
std::filesystem::path find_data(const std::string& name, const std::string& origin);

}  // namespace ssa
