#include "config/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

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
    refuse(fmt::format("{}: unknown section [{}]; did you mean [{}]?", setting.origin,
                       setting.section, nearest_name(setting.section, section_names())));
  }
  if (!key_found) {
    refuse(fmt::format("{}: unknown key {}.{}; did you mean {}.{}?", setting.origin,
                       setting.section, setting.key,
                       elsewhere.empty() ? setting.section : elsewhere,
                       elsewhere.empty() ? nearest_name(setting.key, keys) : setting.key));
  }
}

/// The lower bound (exclusive) of a parameter's values under the model's parametrisation.
double lower_bound(const ModelConfig& model, const ParamInfo& parameter) {
  const bool softplus = model.parametrisation == "softplus";
  return std::max(parameter.above, softplus ? parameter.module_lower : parameter.above);
}

void check_score(const ModelConfig& model, const std::string& origin) {
  const ScoreInfo& score = find_score(model.score);
  if (!model.score_initial.empty() && model.score_initial.size() != score.params.size()) {
    refuse(fmt::format("{}: model.score_initial has {} values, but {} has {} parameters", origin,
                       model.score_initial.size(), score.name, score.params.size()));
  }
  const std::vector<double> values = model.initial_score_values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ParamInfo& parameter = score.params[i];
    if (values[i] <= lower_bound(model, parameter)) {
      refuse(
          fmt::format("{}: model.score_initial: {} = {} of {} must be above {} with "
                      "parametrisation {}",
                      origin, parameter.name, values[i], score.name, lower_bound(model, parameter),
                      model.parametrisation));
    }
  }
  const auto known = [&](const std::string& name) {
    return std::ranges::any_of(score.params, [&](const ParamInfo& p) { return p.name == name; });
  };
  for (const auto* list : {&model.score_frozen, &model.score_trained}) {
    for (const std::string& name : *list) {
      const char* key = list == &model.score_frozen ? "score_frozen" : "score_trained";
      if (!known(name)) {
        refuse(
            fmt::format("{}: model.{}: {} has no parameter \"{}\"", origin, key, score.name, name));
      }
    }
  }
  if (score.family != ScoreFamily::kPhi && model.score_kernel == "fused") {
    refuse(fmt::format("{}: model.score_kernel = \"fused\": {} has no fused kernel", origin,
                       score.name));
  }
  if (score.family == ScoreFamily::kLinear && model.dropout > 0) {
    refuse(fmt::format("{}: model.dropout = {}: {} has no attention weights to drop out", origin,
                       model.dropout, score.name));
  }
  if (score.family == ScoreFamily::kLinear) {
    if (!model.score_trained.empty()) {
      refuse(fmt::format("{}: model.score_trained: {} of {} is fixed and cannot be trained", origin,
                         model.score_trained.front(), score.name));
    }
    if (values[0] < static_cast<double>(model.max_positions)) {
      refuse(
          fmt::format("{}: model.score_initial: {} = {} of {} must be at least "
                      "model.max_positions = {}",
                      origin, score.params[0].name, values[0], score.name, model.max_positions));
    }
  }
  for (const std::string& name : model.score_frozen) {
    if (std::ranges::find(model.score_trained, name) != model.score_trained.end()) {
      refuse(fmt::format("{}: \"{}\" stands in model.score_frozen and in model.score_trained",
                         origin, name));
    }
  }
}

/// Models of token ids are encoders (BERT: norms after, both directions) or decoders (GPT: norms
/// before, causal); other combinations are not built.
void check_input(const ModelConfig& model, const std::string& origin) {
  if (model.input != "tokens") return;
  if (model.vocabulary == 0) {
    refuse(fmt::format(
        "{}: model.input = \"tokens\" needs model.vocabulary, the number of token ids", origin));
  }
  if (model.pad_id >= model.vocabulary) {
    refuse(fmt::format("{}: model.pad_id = {} is not below model.vocabulary = {}", origin,
                       model.pad_id, model.vocabulary));
  }
  const bool encoder = model.norm_place == "after";
  const Json needs = encoder ? Json{{"positions", "learned"}, {"tied", true}, {"linear_bias", true}}
                             : Json{{"causal", true}, {"token_types", 0}};
  const Json all = section_to_json(model);
  for (const auto& [key, needed] : needs.items()) {
    if (all[key] == needed) continue;
    refuse(
        fmt::format("{}: model.{} = {} is not built for model.input = \"tokens\" with "
                    "model.norm_place = \"{}\", which needs {}",
                    origin, key, all[key].dump(), model.norm_place, needed.dump()));
  }
}

/// A value that nothing would read is a mistake.
void check_belongs(const TaskConfig& task, const std::string& origin) {
  const std::string kind = task.name.substr(0, task.name.find('-'));
  const Json values = section_to_json(task), defaults = section_to_json(TaskConfig());
  TaskConfig::fields([&](const Field& field, auto) {
    const std::string key(field.name);
    const bool fits =
        field.tasks.empty() || std::ranges::find(field.tasks, kind) != field.tasks.end();
    if (fits || values[key] == defaults[key]) return;
    refuse(fmt::format("{}: task.{} belongs to tasks of {}, but task.name = \"{}\"", origin, key,
                       fmt::join(field.tasks, ", "), task.name));
  });
}

/// What no single field can tell.
void check(const Config& config, const std::string& origin) {
  const ModelConfig& model = config.model;
  const TaskConfig& task = config.task;
  if (model.width % model.heads != 0) {
    refuse(fmt::format("{}: model.width = {} is not a multiple of model.heads = {}", origin,
                       model.width, model.heads));
  }
  if (model.heads % model.key_value_heads() != 0) {
    refuse(fmt::format("{}: model.heads = {} is not a multiple of model.kv_heads = {}", origin,
                       model.heads, model.kv_heads));
  }
  if (model.positions == "rope" && (model.rotary_dim() % 2 != 0 || model.rotary_dim() == 0)) {
    refuse(
        fmt::format("{}: model.positions = \"rope\" turns pairs of dimensions, but of a head's "
                    "model.width / model.heads = {} it would turn {} (model.rotary_share = {})",
                    origin, model.head_dim(), model.rotary_dim(), model.rotary_share));
  }
  check_input(model, origin);
  check_belongs(task, origin);
  if (task.points_start > task.points_end) {
    refuse(fmt::format("{}: task.points_start = {} is above task.points_end = {}", origin,
                       task.points_start, task.points_end));
  }
  if (task.name.starts_with("icl-") && model.input == "scalar" &&
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
  check_score(model, origin);
}

/// RoBERTa (Liu et al. 2019) with BabyBERTa's pad id. max_positions counts tokens: the table has
/// pad_id + 1 rows more, as RoBERTa's max_position_embeddings (130 for 128) counts them.
Json babyberta(int layers, int heads, int width, int vocabulary, int max_positions) {
  return {{"layers", layers},
          {"heads", heads},
          {"width", width},
          {"activation", "gelu"},
          {"norm_place", "after"},
          {"causal", false},
          {"max_positions", max_positions},
          {"input", "tokens"},
          {"vocabulary", vocabulary},
          {"pad_id", 1},
          {"token_types", 2},
          {"dropout", 0.1}};
}

/// NVIDIA's Nemotron blocks (Parmar et al. 2024, arXiv 2402.16819), with one set of score
/// parameters a layer as in the paper's decoder.
Json nemotron(int layers, int heads, int kv_heads, int width, int vocabulary, int max_positions) {
  return {{"layers", layers},
          {"heads", heads},
          {"kv_heads", kv_heads},
          {"width", width},
          {"activation", "relu-squared"},
          {"linear_bias", false},
          {"norm", "layer-1p"},
          {"positions", "rope"},
          {"rotary_share", 0.5},
          {"max_positions", max_positions},
          {"input", "tokens"},
          {"vocabulary", vocabulary},
          {"init_std", 0.0134},
          {"score_share", "layer"}};
}

Json gpt2(int layers, int heads, int width, int vocabulary, int max_positions) {
  return {{"layers", layers},  {"heads", heads},
          {"width", width},    {"max_positions", max_positions},
          {"input", "tokens"}, {"vocabulary", vocabulary}};
}

void apply_preset(Config& config, const std::string& name, const std::string& origin) {
  const auto found =
      std::ranges::find_if(presets(), [&](const Preset& preset) { return preset.name == name; });
  for (const auto& [key, value] : found->values.items()) {
    set(config, {"model", key, value, fmt::format("{}: preset {}", origin, name)});
  }
}

}  // namespace

std::vector<std::string> score_names() {
  std::vector<std::string> names;
  for (const ScoreInfo& score : scores()) names.emplace_back(score.name);
  return names;
}

std::span<const Preset> presets() {
  static const std::vector<Preset> table = {
      {"gpt2-icl", "GPT-2 blocks as in the paper: 12 layers, 8 heads, width 256", Json::object()},
      {"gpt2-icl-small",
       "GPT-2 blocks: 6 layers, 4 heads, width 128",
       {{"layers", 6}, {"heads", 4}, {"width", 128}}},
      {"gpt2-icl-tiny",
       "GPT-2 blocks: 3 layers, 4 heads, width 64",
       {{"layers", 3}, {"heads", 4}, {"width", 64}}},
      {"attention-only",
       "12 layers, 8 heads, width 256 without MLP and norm",
       {{"mlp", false}, {"norm", "none"}}},
      {"attention-only-small",
       "6 layers, 4 heads, width 128 without MLP and norm",
       {{"layers", 6}, {"heads", 4}, {"width", 128}, {"mlp", false}, {"norm", "none"}}},
      {"attention-only-tiny",
       "3 layers, 4 heads, width 64 without MLP and norm",
       {{"layers", 3}, {"heads", 4}, {"width", 64}, {"mlp", false}, {"norm", "none"}}},
      {"attention-only-no-residual-tiny",
       "the same without residual connections",
       {{"layers", 3},
        {"heads", 4},
        {"width", 64},
        {"mlp", false},
        {"norm", "none"},
        {"residual", false}}},
      {"babyberta",
       "RoBERTa blocks as BabyBERTa has them: 8 layers, 8 heads, width 256, 8192 tokens",
       babyberta(8, 8, 256, 8192, 128)},
      {"babyberta-tiny", "RoBERTa blocks: 2 layers, 2 heads, width 32, 128 tokens",
       babyberta(2, 2, 32, 128, 32)},
      {"nemotron-114m",
       "Nemotron blocks as in the paper: 12 layers, 24 heads (8 of keys), width 768, 50256 tokens",
       nemotron(12, 24, 8, 768, 50256, 1024)},
      {"nemotron-small", "Nemotron blocks: 6 layers, 8 heads (4 of keys), width 256, 8192 tokens",
       nemotron(6, 8, 4, 256, 8192, 256)},
      {"nemotron-tiny", "Nemotron blocks: 2 layers, 4 heads (2 of keys), width 32, 256 tokens",
       nemotron(2, 4, 2, 32, 256, 64)},
      {"gpt2-124m", "GPT-2's smallest model: 12 layers, 12 heads, width 768, 50257 tokens",
       gpt2(12, 12, 768, 50257, 1024)},
      {"gpt2-tiny", "GPT-2 blocks over tokens: 2 layers, 2 heads, width 32, 256 tokens",
       gpt2(2, 2, 32, 256, 64)},
  };
  return table;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  return names;
}

std::vector<double> ModelConfig::initial_score_values() const {
  std::vector<double> values;
  const ScoreInfo& info = find_score(score);
  for (const ParamInfo& parameter : info.params) values.push_back(parameter.initial);
  return score_initial.empty() ? values : score_initial;
}

bool ModelConfig::trains(const ParamInfo& parameter) const {
  const auto listed = [&](const std::vector<std::string>& names) {
    return std::ranges::find(names, parameter.name) != names.end();
  };
  return (parameter.trained || listed(score_trained)) && !listed(score_frozen);
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

Config make_config(const Settings& settings, const std::string& origin) {
  Config config;
  // The last preset counts, and goes below everything else, wherever it stands.
  for (const Setting& setting : settings) {
    if (setting.section == ModelConfig::kSection && setting.key == "preset") set(config, setting);
  }
  apply_preset(config, config.model.preset, origin);
  for (const Setting& setting : settings) set(config, setting);
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
  return make_config(settings_of(values, origin), origin);
}

}  // namespace ssa
