#include "shards/shards_record.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "files/durable_files.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

constexpr const char* kHeldOut = "-held-out";

/// Whether it has what is read of records, in its type.
bool is_record(const Json& record) {
  try {
    const auto is_text = [](const Json& value) { return value.is_string(); };
    const Json& recipe = record.at("recipe");
    bool known = is_text(record.at("tokenizer")) && is_text(recipe.at("tokenizer")) &&
                 is_text(recipe.at("end_token").at("token")) && recipe.contains("vocabulary") &&
                 recipe.at("end_token").contains("id") && record.contains("held_out");
    for (const Json& input : record.at("inputs")) {
      known = known && is_text(input.at("file")) && is_text(input.at("hash"));
    }
    return known;
  } catch (const Json::exception&) {
    return false;
  }
}

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
  if (!is_record(record)) {
    throw std::runtime_error(fmt::format(
        "{}: is not a record of token shards, but stands where theirs would", file.string()));
  }
  return record;
}

}  // namespace ssa
