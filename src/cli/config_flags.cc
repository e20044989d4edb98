#include "cli/config_flags.h"

namespace ssa {

void add_config_flags(CLI::App& app, Settings& settings) {
  const Config defaults;
  Config::sections([&](auto section_member) {
    const auto& section = defaults.*section_member;
    using Section = std::remove_cvref_t<decltype(section)>;
    add_section_flags(
        app, section, fmt::format("[{}] over the TOML file's values", Section::kSection),
        [&settings](const Setting& setting) { settings.push_back(setting); }, false);
  });
}

}  // namespace ssa
