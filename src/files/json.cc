#include "files/json.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "files/file_descriptor.h"
#include "files/utf8.h"

namespace ssa {
namespace {

/// Throws where brackets are nested too deep. What is no JSON may be counted wrong, but only behind
/// the place where the parser stops.
void check_depth(std::string_view text) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostJsonDepth) {
        throw std::invalid_argument(
            fmt::format("JSON nested more than {} deep (byte {})", kMostJsonDepth, at + 1));
      }
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
}

/// "a string", "1.5": what stands there instead of what was expected.
std::string shown(const Json& value) {
  constexpr std::size_t kMost = 40;
  std::string text = json_text(value);
  if (text.size() <= kMost) return text;
  text.resize(kMost);
  return replace_invalid_utf8(text) + "…";
}

template <class T>
const char* type_words() {
  if constexpr (std::is_same_v<T, std::string>) {
    return "a string";
  } else if constexpr (std::is_same_v<T, bool>) {
    return "true or false";
  } else if constexpr (std::is_integral_v<T>) {
    return "a whole number";
  } else if constexpr (std::is_floating_point_v<T>) {
    return "a number";
  } else {
    return "a value";
  }
}

template <class T>
bool holds(const Json& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value.is_string();
  } else if constexpr (std::is_same_v<T, bool>) {
    return value.is_boolean();
  } else if constexpr (std::is_integral_v<T>) {
    return is_int64(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return value.is_number();
  } else {
    return true;
  }
}

}  // namespace

bool is_int64(const Json& value) {
  if (!value.is_number_integer()) return false;
  return !value.is_number_unsigned() ||
         value.get<std::uint64_t>() <=
             static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
}

template <class Value>
Value parse_json(std::string_view text, const typename Value::parser_callback_t& watch) {
  if (text.size() > kMostJsonBytes) {
    throw std::invalid_argument(fmt::format("JSON of {} bytes, more than the {} that are read",
                                            text.size(), kMostJsonBytes));
  }
  check_depth(text);
  try {
    return Value::parse(text, watch);
  } catch (const typename Value::parse_error& error) {
    throw std::invalid_argument(fmt::format("not valid JSON (byte {})", error.byte));
  } catch (const typename Value::out_of_range&) {
    throw std::invalid_argument("JSON with a number that is too large");
  } catch (const typename Value::exception& error) {
    throw std::invalid_argument(fmt::format("JSON that cannot be read: {}", error.what()));
  }
}

template <class Value>
Value read_json(const std::filesystem::path& file) {
  const std::string content = read_file(file, kMostJsonBytes + kByteOrderMark.size());
  std::string_view text = content;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  try {
    return parse_json<Value>(text);
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(fmt::format("{}: {}", file.string(), error.what()));
  }
}

std::string json_text(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

template <class T>
T json_field(const Json& value, std::string_view key, std::string_view origin) {
  const auto found = value.is_object() ? value.find(key) : value.end();
  if (found == value.end()) {
    throw std::runtime_error(fmt::format("{}: field \"{}\" is missing", origin, key));
  }
  if (!holds<T>(*found)) {
    throw std::runtime_error(fmt::format("{}: field \"{}\": expected {}, found {}", origin, key,
                                         type_words<T>(), shown(*found)));
  }
  return found->template get<T>();
}

template Json parse_json<Json>(std::string_view, const Json::parser_callback_t&);
template SortedJson parse_json<SortedJson>(std::string_view, const SortedJson::parser_callback_t&);
template Json read_json<Json>(const std::filesystem::path&);
template SortedJson read_json<SortedJson>(const std::filesystem::path&);
template std::string json_field(const Json&, std::string_view, std::string_view);
template bool json_field(const Json&, std::string_view, std::string_view);
template std::int64_t json_field(const Json&, std::string_view, std::string_view);
template double json_field(const Json&, std::string_view, std::string_view);
template Json json_field(const Json&, std::string_view, std::string_view);

}  // namespace ssa
