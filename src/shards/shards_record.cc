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

std::map<std::string, std::string> texts_by_hash(const fs::path& prefix) {
  std::map<std::string, std::string> texts;
  const Json record = read_shards_record(main_prefix(prefix));
  if (record.is_null()) return texts;
  for (const Json& input : record.at("inputs")) {
    texts.emplace(input.at("hash").get<std::string>(), input.at("file").get<std::string>());
  }
  return texts;
}

std::string shared_text(const fs::path& training, const fs::path& other) {
  const auto held_out_share = [](const fs::path& prefix) {
    const Json record = read_shards_record(main_prefix(prefix));
    const Json share = record.is_null() ? Json() : record.at("recipe").value("held_out", Json());
    return share.is_number() ? share.get<double>() : 0.0;
  };
  const bool apart = main_prefix(training) == training && main_prefix(other) != other &&
                     held_out_share(other) <= held_out_share(training);
  if (apart) return "";
  const auto known = texts_by_hash(training);
  for (const auto& [hash, file] : texts_by_hash(other)) {
    if (known.contains(hash)) return file;
  }
  return "";
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
