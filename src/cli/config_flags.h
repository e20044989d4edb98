// Flags of every configuration field, from the field lists.
#pragma once

#include "config/config.h"

namespace CLI {
class App;
}

namespace ssa {

/// Adds the flag of every field of every section, grouped by section; those that the user
/// gives are appended to `settings`, which must live until the arguments are parsed.
void add_config_flags(CLI::App& app, Settings& settings);

/// What --smoke puts over a config: does it run at all? The model stays as it is.
const Json& smoke_values();

}  // namespace ssa
