// The files that a run names, where it has been moved to.
#pragma once

#include <filesystem>

#include "config/config.h"

namespace ssa {

/// The config with the paths of tokenizer, texts and tokens as they are found: as find_data() does,
/// else, for what is not there, the path (or the file's name alone) in the run folder and the
/// folders above it. What is nowhere stays as it is. Whether the content is the same, the hashes in
/// run.json tell (require_same_data).
Config with_found_data(Config config, const std::filesystem::path& run_folder);

}  // namespace ssa
