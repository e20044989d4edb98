#include "config/toml.h"

#include <fmt/format.h>

#include <stdexcept>

namespace ssa {
namespace {

std::string place(const std::string& file, const toml::node& node) {
  return fmt::format("{}:{}", file, node.source().begin.line);
}

void collect(const toml::table& table, const std::string& prefix, const std::string& file,
             Settings& out) {
  for (const auto& [key, node] : table) {
    const std::string path = prefix.empty() ? std::string(key) : prefix + "." + std::string(key);
    const std::size_t dot = path.find('.');
    if (node.is_table() && dot == std::string::npos) {
      collect(*node.as_table(), path, file, out);
      continue;
    }
    const std::string origin = place(file, node);
    if (dot == std::string::npos) {
      throw std::invalid_argument(fmt::format("{}: {} stands outside a [section]", origin, path));
    }
    out.push_back({path.substr(0, dot), path.substr(dot + 1), toml_to_json(node, origin), origin});
  }
}

}  // namespace

toml::table read_toml(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) {
    throw std::runtime_error(fmt::format("{}: no such file", file.string()));
  }
  if (!std::filesystem::is_regular_file(file)) {
    throw std::runtime_error(fmt::format("{}: not a file", file.string()));
  }
  try {
    return toml::parse_file(file.string());
  } catch (const toml::parse_error& error) {
    throw std::runtime_error(fmt::format("{}:{}: not valid TOML: {}", file.string(),
                                         error.source().begin.line, error.description()));
  }
}

Json toml_to_json(const toml::node& node, const std::string& origin) {
  if (const auto* table = node.as_table()) {
    Json out = Json::object();
    for (const auto& [key, value] : *table) out[std::string(key)] = toml_to_json(value, origin);
    return out;
  }
  if (const auto* array = node.as_array()) {
    Json out = Json::array();
    for (const auto& value : *array) out.push_back(toml_to_json(value, origin));
    return out;
  }
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_boolean()) return value->get();
  throw std::invalid_argument(fmt::format("{}: dates and times have no meaning here", origin));
}

Settings toml_settings(const toml::table& table, const std::string& file) {
  Settings out;
  collect(table, "", file, out);
  return out;
}

}  // namespace ssa
