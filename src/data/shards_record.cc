#include "data/shards_record.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "train/files.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

constexpr const char* kHeldOut = "-held-out";

}  // namespace

fs::path record_path(fs::path prefix) { return prefix += ".json"; }

fs::path held_out_prefix(fs::path prefix) { return prefix += kHeldOut; }

fs::path main_prefix(const fs::path& prefix) {
  const std::string name = prefix.string();
  return name.ends_with(kHeldOut) ? name.substr(0, name.rfind(kHeldOut)) : name;
}

Json read_shards_record(const fs::path& prefix) {
  const fs::path file = record_path(prefix);
  if (!fs::exists(file)) return nullptr;
  Json record = read_json(file);
  const bool known = record.is_object() && record.contains("tokenizer") &&
                     record.contains("inputs") && record.contains("recipe") &&
                     record["recipe"].is_object() && record["recipe"].contains("tokenizer");
  if (!known) {
    throw std::runtime_error(fmt::format(
        "{}: is not a record of token shards, but stands where theirs would", file.string()));
  }
  return record;
}

}  // namespace ssa
