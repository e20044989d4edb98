// Where files of data lie that a config names.
#pragma once

#include <filesystem>
#include <string>

namespace ssa {

/// `name` as it stands where there is such a file or folder, else below the folder of the
/// environment variable SSA_DATA (default ../shared/data). Throws std::runtime_error beginning with
/// `origin` ("task.text") and naming both places if there is neither.
std::filesystem::path find_data(const std::string& name, const std::string& origin);

}  // namespace ssa
