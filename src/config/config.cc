#include "config/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "config/counted.h"
#include "config/toml.h"

namespace ssa {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw std::invalid_argument(message); }

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  Config config;
  Config::sections([&](auto member) {
    names.emplace_back(std::remove_cvref_t<decltype(config.*member)>::kSection);
  });
  return names;
}

/// Sets the field that the setting names, or says which name was probably meant.
void set(Config& config, const Setting& setting) {
  bool section_found = false;
  bool key_found = false;
  std::vector<std::string> keys;
  std::string elsewhere;
  Config::sections([&](auto member) {
    using Section = std::remove_cvref_t<decltype(config.*member)>;
    const auto names = field_names<Section>();
    if (setting.section == Section::kSection) {
      section_found = true;
      keys = names;
      key_found = apply(config.*member, setting);
    } else if (std::ranges::find(names, setting.key) != names.end()) {
      elsewhere = Section::kSection;
    }
  });
  if (!section_found) {
    refuse(fmt::format("{}: unknown section [{}]{}", setting.origin, setting.section,
                       did_you_mean(setting.section, section_names(), "[", "]")));
  }
  if (!key_found) {
    if (!elsewhere.empty()) keys = {setting.key};
    refuse(fmt::format(
        "{}: unknown key {}.{}{}", setting.origin, setting.section, setting.key,
        did_you_mean(setting.key, keys, (elsewhere.empty() ? setting.section : elsewhere) + ".")));
  }
}

/// "icl", "lm", "mlm": what Field::tasks names.
std::string_view task_kind(TaskName name) {
  const std::string_view text = name_of(name);
  return text.substr(0, text.find('-'));
}

/// A value that nothing would read is a mistake.
void check_belongs(const TaskConfig& task, const std::string& origin) {
  const std::string_view kind = task_kind(task.name);
  const Json values = section_to_json(task), defaults = section_to_json(TaskConfig());
  TaskConfig::fields([&](const Field& field, auto) {
    const std::string key(field.name);
    const bool fits =
        field.tasks.empty() || std::ranges::find(field.tasks, kind) != field.tasks.end();
    if (fits || values[key] == defaults[key]) return;
    refuse(fmt::format("{}: task.{} belongs to tasks of {}, but task.name = \"{}\"", origin, key,
                       fmt::join(field.tasks, ", "), name_of(task.name)));
  });
}

void check_landing(const Config& config, const std::string& origin) {
  const auto& [model, task, train] = config;
  const auto& info = find_score(model.score);
  const std::vector<double>& target = train.score_landing;
  if (target.empty() != (train.score_landing_steps == 0)) {
    refuse(fmt::format("{}: train.score_landing and train.score_landing_steps need each other",
                       origin));
  }
  if (target.empty()) return;
  if (target.size() != info.params.size()) {
    refuse(fmt::format("{}: train.score_landing has {}, but {} has {}", origin,
                       counted(target.size(), "value"), info.name,
                       counted(info.params.size(), "parameter")));
  }
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (allows(info.params[i], model.parametrisation, target[i])) continue;
    refuse(fmt::format("{}: train.score_landing: {} = {} of {} must be above {}", origin,
                       info.params[i].name, target[i], info.name,
                       lower_bound(info.params[i], model.parametrisation)));
  }
}

/// Names that files and flags of older versions have, in today's words.
Setting modern(Setting setting) {
  if (setting.section == ModelConfig::kSection && setting.key == "linear_bias" &&
      setting.value.is_boolean()) {
    setting.key = "biases";
    setting.value = setting.value.get<bool>() ? "all" : "none";
  }
  return setting;
}

/// The family of a model in files that do not say it, from before there was the field.
Family family_of_options(const ModelConfig& model) {
  if (model.input == InputKind::scalar) return Family::number;
  if (model.norm_place == NormPlace::after) return Family::roberta;
  return model.positions == Positions::rope ? Family::nemotron : Family::gpt2;
}

/// What no single field can tell.
void check(const Config& config, const std::string& origin) {
  const ModelConfig& model = config.model;
  const TaskConfig& task = config.task;
  check_model(model, origin);
  check_belongs(task, origin);
  if (task.points_start > task.points_end) {
    refuse(fmt::format("{}: task.points_start = {} is above task.points_end = {}", origin,
                       task.points_start, task.points_end));
  }
  if (task_kind(task.name) == "icl" && model.input == InputKind::scalar &&
      task.points_end > model.max_positions / 2) {
    refuse(
        fmt::format("{}: task.points_end = {} makes sequences of {} tokens, but "
                    "model.max_positions = {}",
                    origin, task.points_end, 2 * static_cast<std::uint64_t>(task.points_end),
                    model.max_positions));
  }
  if (config.train.warmup_steps > config.train.steps) {
    refuse(fmt::format("{}: train.warmup_steps = {} is above train.steps = {}", origin,
                       config.train.warmup_steps, config.train.steps));
  }
  check_landing(config, origin);
  if (!is_device_name(config.train.device)) {
    refuse(fmt::format("{}: train.device = \"{}\": expected {}", origin, config.train.device,
                       kDeviceNames));
  }
}

void apply_preset(Config& config, const std::string& name, const std::string& origin) {
  const auto found =
      std::ranges::find_if(presets(), [&](const Preset& preset) { return preset.name == name; });
  for (const auto& [key, value] : found->values.items()) {
    set(config, {"model", key, value, fmt::format("{}: preset {}", origin, name)});
  }
}

}  // namespace

bool is_device_name(std::string_view name) {
  if (name == "cpu" || name == "cuda") return true;
  constexpr std::string_view kNumbered = "cuda:";
  const std::string_view number = name.starts_with(kNumbered) ? name.substr(kNumbered.size()) : "";
  return !number.empty() && number.size() <= 2 && (number == "0" || number[0] != '0') &&
         std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
}

Settings read_settings(const std::filesystem::path& file) {
  return toml_settings(read_toml(file), file.string());
}

Settings settings_of(const Json& values, const std::string& origin) {
  Settings out;
  if (!values.is_object()) refuse(fmt::format("{}: expected an object of sections", origin));
  for (const auto& [name, value] : values.items()) {
    const std::size_t dot = name.find('.');
    if (dot != std::string::npos) {
      out.push_back({name.substr(0, dot), name.substr(dot + 1), value, origin});
    } else if (value.is_object()) {
      for (const auto& [key, inner] : value.items()) out.push_back({name, key, inner, origin});
    } else {
      refuse(fmt::format("{}: {} stands outside a section", origin, name));
    }
  }
  return out;
}

namespace {

/// Preset first, then the settings in order; nothing is checked but each field by itself.
Config unchecked_config(const Settings& settings, const std::string& origin) {
  Config config;
  // The last preset counts, and goes below everything else, wherever it stands.
  for (const Setting& setting : settings) {
    if (setting.section == ModelConfig::kSection && setting.key == "preset") set(config, setting);
  }
  apply_preset(config, config.model.preset, origin);
  for (const Setting& setting : settings) set(config, modern(setting));
  return config;
}

}  // namespace

Config make_config(const Settings& settings, const std::string& origin) {
  const Config config = unchecked_config(settings, origin);
  check(config, origin);
  return config;
}

Config load_config(const std::filesystem::path& file, const Settings& overrides) {
  Settings settings = read_settings(file);
  settings.insert(settings.end(), overrides.begin(), overrides.end());
  return make_config(settings, file.string());
}

Json to_json(const Config& config) {
  Json out = Json::object();
  Config::sections([&](auto member) {
    using Section = std::remove_cvref_t<decltype(config.*member)>;
    out[std::string(Section::kSection)] = section_to_json(config.*member);
  });
  return out;
}

Config config_from_json(const Json& values, const std::string& origin) {
  Settings settings = settings_of(values, origin);
  // Files from before there was the field have this one, which newer ones have not.
  const bool old = std::ranges::any_of(settings, [](const Setting& setting) {
    return setting.section == ModelConfig::kSection && setting.key == "linear_bias";
  });
  if (old) {
    const ModelConfig model = unchecked_config(settings, origin).model;
    settings.push_back({"model", "family", std::string(name_of(family_of_options(model))), origin});
  }
  return make_config(settings, origin);
}

}  // namespace ssa
