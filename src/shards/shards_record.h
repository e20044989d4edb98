// PREFIX.json and the names beside it: what `ssa data tokenize` says of its shards
// (docs/formats.md).
#pragma once

#include <filesystem>

#include "config/field.h"

namespace ssa {

std::filesystem::path record_path(std::filesystem::path prefix);
std::filesystem::path held_out_prefix(std::filesystem::path prefix);
/// PREFIX, for PREFIX-held-out as for PREFIX.
std::filesystem::path main_prefix(const std::filesystem::path& prefix);

/// PREFIX.json; null where there is none, as beside shards of another program. Throws
/// std::runtime_error naming a file that is something else.
Json read_shards_record(const std::filesystem::path& prefix);

}  // namespace ssa
