#include "cli/config_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

namespace ssa {
namespace {

/// The value as a flag takes it: lists separated by commas.
std::string flag_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const Json& element : value) text += (text.empty() ? "" : ",") + flag_text(element);
  return text;
}

}  // namespace

void add_config_flags(CLI::App& app, Settings& settings) {
  const Config defaults;
  Config::sections([&](auto section_member) {
    const auto& section = defaults.*section_member;
    using Section = std::remove_cvref_t<decltype(section)>;
    const std::string section_name(Section::kSection);
    Section::fields([&](const Field& field, auto member) {
      const auto& initial = section.*member;
      const std::string flag = flag_name(field);
      const auto note = [&settings, section_name, key = std::string(field.name), flag,
                         like = initial](const std::string& text) {
        settings.push_back({section_name, key, parse_text(like, text), flag});
      };
      app.add_option_function<std::string>(
             flag, note,
             fmt::format("{}{}{} ({})", fmt::join(field.tasks, ", "),
                         field.tasks.empty() ? "" : ": ", field.help, accepts(initial, field)))
          ->type_name("")
          ->default_str(flag_text(initial))
          ->group(fmt::format("[{}] over the TOML file's values", section_name));
    });
  });
}

}  // namespace ssa
