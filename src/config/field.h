// A configuration field is described once; flags, TOML keys, --help, validation, the dump in
// run.json and reading that back all walk over these descriptions.
//
// A section is a struct with default member values and
//   template <class Visit> static void fields(Visit&& visit) { visit(Field{…}, &Section::member); …
//   }
// Members are bool, int64, double, string, a choice (config/choices.h) or none, or a list of
// integers, doubles or strings.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "config/choices.h"
#include "config/suggestion.h"

namespace ssa {

/// Keeps the order of the field lists in dumps.
using Json = nlohmann::ordered_json;

/// A choice is written as its name.
template <Choice C>
void to_json(Json& out, C choice) {
  out = std::string(name_of(choice));
}
/// None is null.
template <Choice C>
void to_json(Json& out, const std::optional<C>& choice) {
  out = choice ? Json(std::string(name_of(*choice))) : Json();
}

/// Name, accepted values and help of one field. The default is the member's own initial value.
struct Field {
  std::string_view name;  ///< TOML key; the flag is --name with dashes
  std::string_view help;
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  double above = -std::numeric_limits<double>::infinity();
  double below = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices = {};  ///< of a string, or of a list's elements; empty = any;
                                          ///< a member that is a choice knows its own
  std::string_view flag = {};             ///< the flag's name where it is not the field's
  std::vector<std::string> tasks = {};    ///< kinds of task that have it: "icl", "lm"; empty = all
  bool writes = false;                    ///< a file to write: says nothing of what is measured
};

/// One value for one field, from wherever it came.
struct Setting {
  std::string section, key;
  Json value;
  std::string origin;  ///< what errors begin with: "configs/x.toml:3", "--layers", …
};

/// Sets `member` to `value`. Throws std::invalid_argument naming origin, field, value and what
/// would be right where the type or range is wrong or a number is not finite.
void assign(bool& member, const Field& field, const Setting& setting);
void assign(std::int64_t& member, const Field& field, const Setting& setting);
void assign(double& member, const Field& field, const Setting& setting);
void assign(std::string& member, const Field& field, const Setting& setting);
void assign(std::vector<std::int64_t>& member, const Field& field, const Setting& setting);
void assign(std::vector<double>& member, const Field& field, const Setting& setting);
void assign(std::vector<std::string>& member, const Field& field, const Setting& setting);
template <Choice C>
void assign(C& member, Field field, const Setting& setting) {
  field.choices = choice_names<C>();
  std::string name;
  assign(name, field, setting);
  member = *find_choice<C>(name);
}
template <Choice C>
void assign(std::optional<C>& member, const Field& field, const Setting& setting) {
  if (setting.value.is_null()) {
    member.reset();
  } else {
    C choice{};
    assign(choice, field, setting);
    member = choice;
  }
}

/// The names that the field accepts; none where they are not listed.
inline std::vector<std::string> listed_values(bool, const Field&) { return {"true", "false"}; }
template <class T>
requires(!Choice<T>) std::vector<std::string> listed_values(const T&, const Field& field) {
  return field.choices;
}
template <Choice C>
std::vector<std::string> listed_values(C, const Field&) {
  return choice_names<C>();
}
template <Choice C>
std::vector<std::string> listed_values(const std::optional<C>&, const Field&) {
  return choice_names<C>();
}

/// What the field accepts, in words: "an integer of at least 1", "one of adam, adamw", …
std::string accepts(bool, const Field& field);
std::string accepts(std::int64_t, const Field& field);
std::string accepts(double, const Field& field);
std::string accepts(const std::string&, const Field& field);
std::string accepts(const std::vector<std::int64_t>&, const Field& field);
std::string accepts(const std::vector<double>&, const Field& field);
std::string accepts(const std::vector<std::string>&, const Field& field);
template <Choice C>
std::string accepts(C, Field field) {
  field.choices = choice_names<C>();
  return accepts(std::string(), field);
}
template <Choice C>
std::string accepts(const std::optional<C>&, const Field& field) {
  return accepts(C{}, field);
}

/// A flag's text as a value for a member of the type of `like`: lists are separated by commas. Text
/// that does not parse stays a string, so that assign() refuses it.
Json parse_text(bool like, const std::string& text);
Json parse_text(std::int64_t like, const std::string& text);
Json parse_text(double like, const std::string& text);
Json parse_text(const std::string& like, const std::string& text);
Json parse_text(const std::vector<std::int64_t>& like, const std::string& text);
Json parse_text(const std::vector<double>& like, const std::string& text);
Json parse_text(const std::vector<std::string>& like, const std::string& text);
template <Choice C>
Json parse_text(C, const std::string& text) {
  return text;
}
template <Choice C>
Json parse_text(const std::optional<C>&, const std::string& text) {
  return text;
}

/// The value as a flag takes it, so that parse_text() reads it: "" for null.
std::string flag_text(const Json& value);

/// The choice of that name. Throws std::invalid_argument naming `what` and what would be right.
template <Choice C>
C choice_named(const std::string& what, const std::string& name) {
  if (const auto found = find_choice<C>(name)) return *found;
  throw std::invalid_argument(what + " = \"" + name + "\": expected " + accepts(C{}, Field{}) +
                              did_you_mean(name, choice_names<C>(), "\"", "\""));
}

/// "layers" -> "--layers", "kv_heads" -> "--kv-heads"
std::string flag_name(std::string_view field_name);
std::string flag_name(const Field& field);

/// Names of the section's fields, in order.
template <class Section>
std::vector<std::string> field_names() {
  std::vector<std::string> names;
  Section::fields([&](const Field& field, auto) { names.emplace_back(field.name); });
  return names;
}

/// Sets the field that setting.key names; false if the section has none of that name.
template <class Section>
bool apply(Section& section, const Setting& setting) {
  bool found = false;
  Section::fields([&](const Field& field, auto member) {
    if (field.name == setting.key) {
      assign(section.*member, field, setting);
      found = true;
    }
  });
  return found;
}

/// {"name": value, …} of every field.
template <class Section>
Json section_to_json(const Section& section) {
  Json out = Json::object();
  Section::fields(
      [&](const Field& field, auto member) { out[std::string(field.name)] = section.*member; });
  return out;
}

/// Throws what assign() says of the first member whose value its field does not accept.
template <class Section>
void check_section(Section section, const std::string& origin) {
  Section::fields([&](const Field& field, auto member) {
    const Json value = section.*member;
    assign(section.*member, field,
           {std::string(Section::kSection), std::string(field.name), value, origin});
  });
}

}  // namespace ssa
