// TOML values as Json and as settings, for everything that reads a TOML file.
#pragma once

#include <toml++/toml.h>
#include <filesystem>
#include <string>

#include "config/config.h"

namespace ssa {

/// The parsed file. Throws std::runtime_error naming the file (and line) if it is missing or
/// broken.
toml::table read_toml(const std::filesystem::path& file);

/// Integers, floats, booleans, strings, arrays and tables. Throws std::invalid_argument for dates.
Json toml_to_json(const toml::node& node, const std::string& origin);

/// The settings of a table of sections: [model] layers = 3, model.layers = 3 and "model.layers" = 3
/// are the same. Origins are "file:line".
Settings toml_settings(const toml::table& table, const std::string& file);

}  // namespace ssa
