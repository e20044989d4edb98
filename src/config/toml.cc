#include "config/toml.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>

#include "config/suggestion.h"

namespace ssa {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr std::size_t kMostDots = 256;

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

std::string read_text(const std::filesystem::path& file) {
  const auto refuse = [&](const std::string& why) {
    throw std::runtime_error(fmt::format("{}: {}", file.string(), why));
  };
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    refuse("no such file" + did_you_mean(file));
  }
  if (error) refuse(fmt::format("cannot be read: {}", error.message()));
  if (!std::filesystem::is_regular_file(status)) refuse("not a file");
  if (std::filesystem::file_size(file) > kMostBytes) {
    refuse(fmt::format("is larger than the {} bytes that are read of a TOML file", kMostBytes));
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) refuse(fmt::format("cannot be read: {}", std::strerror(errno)));
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Throws where a dotted key makes tables within tables too deep to be walked over. (Of arrays and
/// inline tables the library counts itself.)
void check_keys(std::string_view text, const std::string& file) {
  std::size_t dots = 0, line = 1;
  for (const char c : text) {
    line += c == '\n';
    if (c == '.') ++dots;
    if (std::string_view(",=[]{}\n").find(c) != std::string_view::npos) dots = 0;
    if (dots > kMostDots) {
      throw std::runtime_error(
          fmt::format("{}:{}: more than {} dots in a key", file, line, kMostDots));
    }
  }
}

}  // namespace

toml::table read_toml(const std::filesystem::path& file) {
  const std::string text = read_text(file);
  check_keys(text, file.string());
  try {
    return toml::parse(text, file.string());
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
