// The one reader of JSON: with limits, and with errors that say where.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "config/field.h"

namespace ssa {

/// Finds a key among many.
using SortedJson = nlohmann::json;

/// What is nested deeper, or larger, is damaged or hostile: walking over it would take all of the
/// stack or of the memory.
inline constexpr std::size_t kMostJsonDepth = 64;
inline constexpr std::size_t kMostJsonBytes = std::size_t{256} << 20;

/// The value that the text is. Throws std::invalid_argument ("not valid JSON (byte 7)", "a number
/// too large"), whatever is wrong. `watch` as nlohmann's parse() has it. Instantiated for Json and
/// SortedJson.
template <class Value = Json>
Value parse_json(std::string_view text, const typename Value::parser_callback_t& watch = nullptr);

/// The value that the file is; a byte order mark at its start is none of it. Throws
/// std::runtime_error naming the file.
template <class Value = Json>
Value read_json(const std::filesystem::path& file);

/// The value as text. What is not valid UTF-8 (a file's name may be so) becomes U+FFFD; numbers
/// that are not finite become null. `indent` < 0: in one line.
std::string json_text(const Json& value, int indent = -1);

/// value[key] as T. Throws std::runtime_error naming `origin` (a file), the key and what it holds:
/// a field that is missing, of another type, or a number that T cannot hold.
template <class T>
T json_field(const Json& value, std::string_view key, std::string_view origin);

/// Whether the value is a whole number that std::int64_t holds.
bool is_int64(const Json& value);

}  // namespace ssa
