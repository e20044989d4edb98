// PREFIX.json and the names beside it: what `ssa data tokenize` says of its shards
// (docs/formats.md).
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "config/field.h"

namespace ssa {

std::filesystem::path record_path(std::filesystem::path prefix);
std::filesystem::path held_out_prefix(std::filesystem::path prefix);
/// PREFIX, for PREFIX-held-out as for PREFIX.
std::filesystem::path main_prefix(const std::filesystem::path& prefix);

/// PREFIX.json; null where there is none, as beside shards of another program. Throws
/// std::runtime_error naming a file that is something else.
Json read_shards_record(const std::filesystem::path& prefix);

/// The text files that the shards of PREFIX (or PREFIX-held-out) were made from, by their hash
/// (hash_files of the one file); none where there is no record.
std::map<std::string, std::string> texts_by_hash(const std::filesystem::path& prefix);

/// A text file whose documents may stand in the shards of both prefixes; "" if none is known. What
/// one holds out by the hash of documents is not in what the other keeps.
std::string shared_text(const std::filesystem::path& training, const std::filesystem::path& other);

}  // namespace ssa
