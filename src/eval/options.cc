#include "eval/options.h"

#include <fmt/format.h>

#include <stdexcept>
#include <type_traits>

namespace ssa {
namespace {

/// f(field, member, whether a kind of suite has it) of every option.
template <class Options, class F>
void for_each_option(Options& options, F&& f) {
  EvaluationOptions::sections([&](auto section_member) {
    auto& section = options.*section_member;
    using Section = std::remove_cvref_t<decltype(section)>;
    Section::fields(
        [&](const Field& field, auto member) { f(field, section.*member, &Section::is_of); });
  });
}

using IsOf = bool (*)(SuiteKind);

}  // namespace

bool takes(SuiteKind kind, std::string_view option) {
  bool found = false;
  const EvaluationOptions options;
  for_each_option(options, [&](const Field& field, const auto&, IsOf is_of) {
    found = found || (field.name == option && is_of(kind));
  });
  return found;
}

void set_option(EvaluationOptions& options, const Setting& setting) {
  std::vector<std::string> known;
  bool found = false;
  for_each_option(options, [&](const Field& field, auto& member, IsOf) {
    known.emplace_back(field.name);
    if (field.name != setting.key) return;
    Setting one = setting;
    if (one.value.is_string() && Json(member).is_array()) {
      one.value = parse_text(member, one.value.get<std::string>());
    }
    assign(member, field, one);
    found = true;
  });
  if (found) return;
  throw std::invalid_argument(fmt::format("{}: unknown key evaluation.{}{}", setting.origin,
                                          setting.key,
                                          did_you_mean(setting.key, known, "evaluation.")));
}

Json checked_options(const Json& given, const std::string& origin) {
  EvaluationOptions options;
  Json out = Json::object();
  for (const auto& [key, value] : given.items()) {
    set_option(options, {"evaluation", key, value, origin});
    for_each_option(options, [&, &name = key](const Field& field, const auto& member, IsOf) {
      if (field.name != name) return;
      if (field.writes) {
        throw std::invalid_argument(fmt::format(
            "{}: evaluation.{}: is a file to write, a flag of `ssa eval` alone", origin, name));
      }
      out[name] = member;
    });
  }
  return out;
}

Json options_json(const EvaluationOptions& options, SuiteKind kind) {
  Json out = Json::object();
  for_each_option(options, [&](const Field& field, const auto& member, IsOf is_of) {
    if (is_of(kind) && !field.writes) out[std::string(field.name)] = member;
  });
  return out;
}

std::vector<std::string> option_flags(const Json& options, SuiteKind kind) {
  const Json defaults = options_json({}, kind);
  std::vector<std::string> flags;
  for (const auto& [key, value] : options.items()) {
    if (!takes(kind, key) || value == defaults.at(key)) continue;
    flags.push_back(flag_name(key));
    if (!value.is_boolean()) flags.push_back(flag_text(value));
  }
  return flags;
}

}  // namespace ssa
