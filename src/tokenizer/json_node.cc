#include "tokenizer/json_node.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "files/byte_stream.h"
#include "tokenizer/unicode.h"

namespace ssa {
namespace {

constexpr int kMostDepth = 64;
constexpr std::size_t kShown = 40;

}  // namespace

bool JsonNode::is_null() const { return value_->is_null(); }
bool JsonNode::is_list() const { return value_->is_array(); }

void JsonNode::refuse(const std::string& reason) const {
  throw std::runtime_error(
      fmt::format("{}: {}{}{}", file_, field_, field_.empty() ? "" : ": ", reason));
}

void JsonNode::refuse_type(std::string_view expected) const {
  std::string found = value_->dump();
  if (found.size() > kShown) found = replace_invalid_utf8(found.substr(0, kShown)) + "…";
  refuse(fmt::format("expected {}, found {}", expected, found));
}

const JsonNode::Value& JsonNode::object() const {
  if (!value_->is_object()) refuse_type("an object");
  return *value_;
}

JsonNode JsonNode::child(std::string_view key, const Value& value) const {
  return {value, file_, field_.empty() ? std::string(key) : fmt::format("{}.{}", field_, key)};
}

JsonNode JsonNode::at(std::string_view key) const {
  const auto found = object().find(key);
  if (found == value_->end()) refuse(fmt::format("\"{}\" is missing", key));
  return child(key, *found);
}

JsonNode JsonNode::find(std::string_view key) const {
  static const Value null;
  const auto found = object().find(key);
  return child(key, found == value_->end() ? null : *found);
}

std::vector<JsonNode> JsonNode::elements() const {
  if (!value_->is_array()) refuse_type("a list");
  std::vector<JsonNode> nodes;
  for (std::size_t i = 0; i < value_->size(); ++i) {
    nodes.emplace_back((*value_)[i], file_, fmt::format("{}[{}]", field_, i));
  }
  return nodes;
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members() const {
  std::vector<std::pair<std::string, JsonNode>> nodes;
  for (const auto& [key, member] : object().items()) nodes.emplace_back(key, child(key, member));
  return nodes;
}

const std::string& JsonNode::text() const {
  if (!value_->is_string()) refuse_type("a string");
  return value_->get_ref<const std::string&>();
}

const std::string& JsonNode::character() const {
  const std::string& one = text();
  if (one.empty() || first_code_point(one).length != one.size()) refuse_type("one character");
  return one;
}

bool JsonNode::flag() const {
  if (!value_->is_boolean()) refuse_type("true or false");
  return value_->get<bool>();
}

double JsonNode::number() const {
  if (!value_->is_number()) refuse_type("a number");
  return value_->get<double>();
}

std::size_t JsonNode::count(std::size_t most) const {
  if (!value_->is_number_integer() || value_->get<double>() < 0 ||
      value_->get<double>() > static_cast<double>(most)) {
    refuse_type(fmt::format("a whole number from 0 to {}", most));
  }
  return value_->get<std::size_t>();
}

TokenId JsonNode::id() const {
  if (!value_->is_number_integer() || value_->get<double>() < 0 ||
      value_->get<double>() >= kMostTokens) {
    refuse_type(fmt::format("an id from 0 to {}", kMostTokens - 1));
  }
  return value_->get<TokenId>();
}

void JsonNode::allow_only(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, member] : object().items()) {
    if (std::ranges::find(known, key) == known.end()) {
      refuse(fmt::format("unknown field \"{}\"; supported: {}", key, fmt::join(known, ", ")));
    }
  }
}

std::size_t JsonNode::type(std::string_view part, std::span<const std::string_view> known) const {
  const JsonNode type = at("type");
  const auto found = std::ranges::find(known, type.text());
  if (found == known.end()) {
    type.refuse(fmt::format("{} type \"{}\" is not supported; supported: {}", part, type.text(),
                            fmt::join(known, ", ")));
  }
  return static_cast<std::size_t>(found - known.begin());
}

nlohmann::json parse_json_file(const std::filesystem::path& file) {
  const std::string bytes = read_bytes(file);
  std::string_view text = bytes;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const auto check_depth = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kMostDepth) {
      throw std::runtime_error(
          fmt::format("{}: objects and lists stand more than {} deep in one "
                      "another",
                      file.string(), kMostDepth));
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, check_depth);
  } catch (const nlohmann::json::parse_error& error) {
    throw std::runtime_error(
        fmt::format("{}: not valid JSON (at byte {})", file.string(), error.byte));
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(fmt::format("{}: {}", file.string(), error.what()));
  }
}

}  // namespace ssa
