// Flags of every configuration field, from the field lists.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <type_traits>

#include "cli/checks.h"
#include "config/config.h"

namespace ssa {

/// Adds the flag of every field of the section, whose values are the defaults; `note` hears those
/// that the user gives. A member that is false by default is a flag without a value where `bare`.
template <class Section>
void add_section_flags(CLI::App& app, const Section& section, const std::string& group,
                       const std::function<void(const Setting&)>& note, bool bare = true) {
  Section::fields([&](const Field& field, auto member) {
    const auto& initial = section.*member;
    const std::string flag = flag_name(field);
    const auto set = [note, flag, key = std::string(field.name),
                      like = initial](const std::string& text) {
      note({std::string(Section::kSection), key, parse_text(like, text), flag});
    };
    const std::string tasks =
        field.tasks.empty() ? std::string() : fmt::format("{}: ", fmt::join(field.tasks, ", "));
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(initial)>, bool>) {
      if (bare && !initial) {
        app.add_flag_callback(
               flag, [set] { set("true"); }, tasks + std::string(field.help))
            ->group(group);
        return;
      }
    }
    app.add_option_function<std::string>(
           flag, set, fmt::format("{}{} ({})", tasks, field.help, accepts(initial, field)))
        ->type_name("")
        ->default_str(flag_text(initial))
        ->check(known_values(listed_values(initial, field)))
        ->group(group);
  });
}

/// Adds the flag of every field of every section, grouped by section; those that the user
/// gives are appended to `settings`, which must live until the arguments are parsed.
void add_config_flags(CLI::App& app, Settings& settings);

/// What --smoke puts over a config: does it run at all? The model stays as it is.
const Json& smoke_values();

}  // namespace ssa
