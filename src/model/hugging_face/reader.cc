#include "model/hugging_face/reader.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace ssa {

ConfigReader::ConfigReader(std::string file, const Json& config, std::string path)
    : file_(std::move(file)), path_(std::move(path)), config_(config) {
  if (config_.is_object()) return;
  fail(path_.empty() ? "is not a JSON object"
                     : fmt::format("{} is not a JSON object", path_.substr(0, path_.size() - 1)));
}

void ConfigReader::fail(const std::string& what) const {
  throw std::runtime_error(fmt::format("{}: {}", file_, what));
}

template <class T>
void ConfigReader::wrong_type(std::string_view key, const T& expected) const {
  fail(fmt::format("{}{} = {} is of the wrong type: expected {}", path_, key,
                   config_.at(std::string(key)).dump(), expected));
}

bool ConfigReader::has(std::string_view key) const { return !value(key).is_null(); }

const Json& ConfigReader::value(std::string_view key) const {
  static const Json none;
  understood_.emplace(key);
  const auto found = config_.find(std::string(key));
  return found == config_.end() ? none : *found;
}

std::int64_t ConfigReader::whole(std::string_view key) const {
  const Json& found = value(key);
  if (found.is_null()) fail(fmt::format("{}{} is missing", path_, key));
  if (!found.is_number_integer()) wrong_type(key, "a whole number");
  return found.get<std::int64_t>();
}

double ConfigReader::number(std::string_view key) const {
  const Json& found = value(key);
  if (found.is_null()) fail(fmt::format("{}{} is missing", path_, key));
  if (!found.is_number()) wrong_type(key, "a number");
  return found.get<double>();
}

std::string ConfigReader::text(std::string_view key) const {
  const Json& found = value(key);
  if (found.is_null()) fail(fmt::format("{}{} is missing", path_, key));
  if (!found.is_string()) wrong_type(key, "a string");
  return found.get<std::string>();
}

std::int64_t ConfigReader::whole(std::string_view key, std::int64_t otherwise) const {
  return has(key) ? whole(key) : otherwise;
}

double ConfigReader::number(std::string_view key, double otherwise) const {
  return has(key) ? number(key) : otherwise;
}

bool ConfigReader::truth(std::string_view key, bool otherwise) const {
  const Json& found = value(key);
  if (found.is_null()) return otherwise;
  if (!found.is_boolean()) wrong_type(key, "true or false");
  return found.get<bool>();
}

std::string ConfigReader::text(std::string_view key, const std::string& otherwise) const {
  return has(key) ? text(key) : otherwise;
}

std::vector<std::string> ConfigReader::texts(std::string_view key) const {
  std::vector<std::string> out;
  const Json& found = value(key);
  if (!found.is_null() && !found.is_array()) wrong_type(key, "a list of strings");
  for (const Json& element : found) {
    if (!element.is_string()) wrong_type(key, "a list of strings");
    out.push_back(element.get<std::string>());
  }
  return out;
}

std::vector<double> ConfigReader::numbers(std::string_view key) const {
  std::vector<double> out;
  const Json& found = value(key);
  if (!found.is_null() && !found.is_array()) wrong_type(key, "a list of numbers");
  for (const Json& element : found) {
    if (!element.is_number()) wrong_type(key, "a list of numbers");
    out.push_back(element.get<double>());
  }
  return out;
}

void ConfigReader::require(std::string_view key, const Json& wanted,
                           const std::string& nearest) const {
  const Json& found = value(key);
  if (found.is_null() || (found == wanted && found.is_boolean() == wanted.is_boolean())) return;
  fail(fmt::format("{}{} = {} is not supported, only {}{}", path_, key, found.dump(), wanted.dump(),
                   nearest.empty() ? "" : "; " + nearest));
}

ConfigReader ConfigReader::inner(std::string_view key, const Json& object) const {
  return {file_, object, std::string(path_).append(key).append(".")};
}

void ConfigReader::without_effect(std::span<const std::string_view> keys) const {
  understood_.insert(keys.begin(), keys.end());
}

void ConfigReader::refuse_unknown() const {
  for (const auto& [key, found] : config_.items()) {
    if (found.is_null() || understood_.contains(key)) continue;
    fail(fmt::format(
        "{}{} = {} is not known, so the model may compute something else than it asks for; if it "
        "has no effect, take it out of the file",
        path_, key, found.dump()));
  }
}

}  // namespace ssa
