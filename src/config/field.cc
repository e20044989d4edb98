#include "config/field.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "config/suggestion.h"

namespace ssa {
namespace {

[[noreturn]] void refuse(const Setting& setting, const std::string& expected,
                         const std::string& hint = "") {
  const Json& value = setting.value;  // JSON would show "nan" as null
  const bool finite = !value.is_number_float() || std::isfinite(value.get<double>());
  throw std::invalid_argument(
      fmt::format("{}: {}.{} = {}: expected {}{}", setting.origin, setting.section, setting.key,
                  finite ? value.dump() : fmt::format("{}", value.get<double>()), expected, hint));
}

std::string range_words(const Field& field) {
  std::vector<std::string> parts;
  if (std::isfinite(field.least)) parts.push_back(fmt::format("of at least {}", field.least));
  if (std::isfinite(field.above)) parts.push_back(fmt::format("above {}", field.above));
  if (std::isfinite(field.most)) parts.push_back(fmt::format("of at most {}", field.most));
  if (std::isfinite(field.below)) parts.push_back(fmt::format("below {}", field.below));
  return parts.empty() ? "" : fmt::format(" {}", fmt::join(parts, " and "));
}

bool in_range(double value, const Field& field) {
  return std::isfinite(value) && value >= field.least && value <= field.most &&
         value > field.above && value < field.below;
}

bool is_whole(const Json& value, const Field& field) {
  const bool too_big = value.is_number_unsigned() &&
                       value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max();
  return value.is_number_integer() && !too_big && in_range(value.get<double>(), field);
}

bool is_number(const Json& value, const Field& field) {
  return value.is_number() && in_range(value.get<double>(), field);
}

template <class Number>
void assign_list(std::vector<Number>& member, bool (*good)(const Json&, const Field&),
                 const Field& field, const Setting& setting) {
  const auto is_good = [&](const Json& element) { return good(element, field); };
  if (!setting.value.is_array() || !std::ranges::all_of(setting.value, is_good)) {
    refuse(setting, accepts(member, field));
  }
  member = setting.value.get<std::vector<Number>>();
}

bool is_choice(const std::string& value, const Field& field) {
  return field.choices.empty() || std::ranges::find(field.choices, value) != field.choices.end();
}

/// With what the field accepts where the value is none of its choices.
[[noreturn]] void refuse_choice(const Setting& setting, const Field& field,
                                const std::string& value, const std::string& expected) {
  refuse(setting, expected, did_you_mean(value, field.choices, "\"", "\""));
}

template <class Number>
Json parse_number(const std::string& text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? Json(value) : Json(text);
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (!text.empty() && begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

template <class Number>
Json parse_numbers(const std::string& text) {
  Json list = Json::array();
  for (const std::string& part : split_at_commas(text)) list.push_back(parse_number<Number>(part));
  return list;
}

}  // namespace

void assign(bool& member, const Field& field, const Setting& setting) {
  if (!setting.value.is_boolean()) refuse(setting, accepts(member, field));
  member = setting.value.get<bool>();
}

void assign(std::int64_t& member, const Field& field, const Setting& setting) {
  if (!is_whole(setting.value, field)) refuse(setting, accepts(member, field));
  member = setting.value.get<std::int64_t>();
}

void assign(double& member, const Field& field, const Setting& setting) {
  if (!is_number(setting.value, field)) refuse(setting, accepts(member, field));
  member = setting.value.get<double>();
}

void assign(std::string& member, const Field& field, const Setting& setting) {
  if (!setting.value.is_string()) refuse(setting, accepts(member, field));
  const auto value = setting.value.get<std::string>();
  if (!is_choice(value, field)) {
    refuse_choice(setting, field, value, accepts(member, field));
  }
  member = value;
}

void assign(std::vector<std::int64_t>& member, const Field& field, const Setting& setting) {
  assign_list(member, is_whole, field, setting);
}

void assign(std::vector<double>& member, const Field& field, const Setting& setting) {
  assign_list(member, is_number, field, setting);
}

void assign(std::vector<std::string>& member, const Field& field, const Setting& setting) {
  if (!setting.value.is_array()) refuse(setting, accepts(member, field));
  std::vector<std::string> values;
  for (const Json& element : setting.value) {
    if (!element.is_string()) refuse(setting, accepts(member, field));
    values.push_back(element.get<std::string>());
    if (!is_choice(values.back(), field)) {
      refuse_choice(setting, field, values.back(), accepts(member, field));
    }
  }
  member = values;
}

std::string accepts(bool, const Field&) { return "true or false"; }

std::string accepts(std::int64_t, const Field& field) { return "an integer" + range_words(field); }

std::string accepts(double, const Field& field) { return "a finite number" + range_words(field); }

std::string accepts(const std::string&, const Field& field) {
  return field.choices.empty() ? "a string"
                               : fmt::format("one of {}", fmt::join(field.choices, ", "));
}

std::string accepts(const std::vector<std::int64_t>&, const Field& field) {
  return fmt::format("a list of integers{}", range_words(field));
}

std::string accepts(const std::vector<double>&, const Field& field) {
  return fmt::format("a list of finite numbers{}", range_words(field));
}

std::string accepts(const std::vector<std::string>&, const Field& field) {
  return field.choices.empty() ? "a list of strings"
                               : fmt::format("a list of {}", fmt::join(field.choices, ", "));
}

Json parse_text(bool, const std::string& text) {
  return text == "true" ? Json(true) : text == "false" ? Json(false) : Json(text);
}

Json parse_text(std::int64_t, const std::string& text) { return parse_number<std::int64_t>(text); }

Json parse_text(double, const std::string& text) { return parse_number<double>(text); }

Json parse_text(const std::string&, const std::string& text) { return text; }

Json parse_text(const std::vector<std::int64_t>&, const std::string& text) {
  return parse_numbers<std::int64_t>(text);
}

Json parse_text(const std::vector<double>&, const std::string& text) {
  return parse_numbers<double>(text);
}

Json parse_text(const std::vector<std::string>&, const std::string& text) {
  return Json(split_at_commas(text));
}

std::string flag_text(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const Json& element : value) {
    if (!text.empty()) text += ',';
    text += flag_text(element);
  }
  return text;
}

std::string flag_name(std::string_view field_name) {
  std::string flag = "--" + std::string(field_name);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::string flag_name(const Field& field) {
  return flag_name(field.flag.empty() ? field.name : field.flag);
}

}  // namespace ssa
