#include "experiment/experiment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "config/toml.h"
#include "eval/icl_shift.h"
#include "eval/metric_kind.h"
#include "eval/options.h"
#include "eval/suites.h"

namespace ssa {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw std::invalid_argument(message); }

std::string place(const std::string& file, const toml::node& node) {
  return fmt::format("{}:{}", file, node.source().begin.line);
}

/// Names of folders are made of these, so that runs/VARIANT/SCORE/seed-K is what it looks like.
void check_name(const std::string& name, const std::string& what, const std::string& origin) {
  const bool plain = std::ranges::all_of(
      name, [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '.' || c == '_'; });
  if (name.empty() || name.front() == '.' || !plain) {
    refuse(
        fmt::format("{}: {} \"{}\": expected letters, digits, dashes, underscores and inner dots",
                    origin, what, name));
  }
}

void check_distinct(const std::vector<std::string>& names, const std::string& what,
                    const std::string& origin) {
  if (names.empty()) refuse(fmt::format("{}: {} is empty", origin, what));
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) {
      refuse(fmt::format("{}: {} names \"{}\" twice", origin, what, name));
    }
  }
}

/// Sets a field of an experiment's own section; an unknown key is an error.
template <class Section>
void read_field(Section& section, std::string_view key, const toml::node& value,
                const std::string& file) {
  const std::string origin = place(file, value);
  const Setting setting{std::string(Section::kSection), std::string(key),
                        toml_to_json(value, origin), origin};
  if (!apply(section, setting)) {
    refuse(fmt::format("{}: unknown key {}.{}{}", origin, setting.section, setting.key,
                       did_you_mean(setting.key, field_names<Section>(), setting.section + ".")));
  }
}

toml::table& as_table(toml::node& node, const std::string& what, const std::string& file) {
  if (!node.is_table()) refuse(fmt::format("{}: {} must be a table", place(file, node), what));
  return *node.as_table();
}

/// The tables of [[name]], none where it is absent.
std::vector<toml::table*> tables_of(toml::table& table, const std::string& name,
                                    const std::string& file) {
  std::vector<toml::table*> found;
  toml::node* node = table.get(name);
  if (node == nullptr) return found;
  if (!node->is_array_of_tables()) {
    refuse(fmt::format("{}: write {}s as [[{}]]", place(file, *node), name, name));
  }
  for (toml::node& element : *node->as_array()) found.push_back(element.as_table());
  return found;
}

/// The scores with every scoring function in the place of "*".
std::vector<std::string> expanded(const std::vector<std::string>& scores) {
  std::vector<std::string> out;
  for (const std::string& score : scores) {
    const std::vector<std::string> names = score == "*" ? score_names() : std::vector{score};
    out.insert(out.end(), names.begin(), names.end());
  }
  return out;
}

/// A [[variant]]: which scores and seeds it is run with, and its own settings.
struct Variant {
  std::string name;
  std::vector<std::string> scores;
  std::int64_t seeds;
  Settings settings;

  static constexpr std::string_view kSection = "variant";
  template <class Visit>
  static void fields(Visit&& visit) {
    using C = Variant;
    visit(Field{.name = "name", .help = "names the folder and the rows of the table"}, &C::name);
    visit(Field{.name = "scores", .help = "instead of the experiment's"}, &C::scores);
    visit(Field{.name = "seeds", .help = "instead of the experiment's", .least = 1}, &C::seeds);
  }
};

/// Empties the table: what is read is taken out (a copied node would no longer know its line).
Variant read_variant(toml::table& table, const ExperimentConfig& experiment,
                     const std::string& file) {
  const std::string origin = place(file, table);
  Variant variant{"", experiment.scores, experiment.seeds, {}};
  std::vector<std::string> own;  // sections are tables; everything else is a key of the variant
  for (const auto& [key, value] : table) {
    if (value.is_table()) continue;
    read_field(variant, key.str(), value, file);
    own.emplace_back(key);
  }
  for (const std::string& key : own) table.erase(key);
  check_name(variant.name, "variant name", origin);
  variant.scores = expanded(variant.scores);
  check_distinct(variant.scores, "variant.scores", origin);
  variant.settings = toml_settings(table, file);
  return variant;
}

std::vector<Variant> read_variants(toml::table& table, const ExperimentConfig& experiment,
                                   const std::string& file) {
  std::vector<Variant> variants;
  std::vector<std::string> names;
  for (toml::table* element : tables_of(table, "variant", file)) {
    variants.push_back(read_variant(*element, experiment, file));
    names.push_back(variants.back().name);
  }
  if (variants.empty()) refuse(fmt::format("{}: there is no [[variant]]", file));
  check_distinct(names, "[[variant]]", file);
  return variants;
}

/// The settings of every label: [scores.LABEL], or just the score of that name.
std::map<std::string, Settings> read_scores(toml::table& table, const std::set<std::string>& used,
                                            const std::string& file) {
  std::map<std::string, Settings> settings;
  if (toml::node* node = table.get("scores")) {
    for (auto&& [key, value] : as_table(*node, "scores", file)) {
      const std::string label(key);
      check_name(label, "score", place(file, value));
      if (!used.contains(label)) {
        refuse(fmt::format("{}: [scores.{}] is used by no variant{}", place(file, value), label,
                           did_you_mean(label, std::vector(used.begin(), used.end()), "\"", "\"")));
      }
      settings[label] = toml_settings(as_table(value, "scores." + label, file), file);
    }
  }
  const std::vector<std::string> known = score_names();
  for (const std::string& label : used) {
    Settings& own = settings[label];
    const bool named = std::ranges::any_of(
        own, [](const Setting& s) { return s.section == "model" && s.key == "score"; });
    if (named) continue;
    if (std::ranges::find(known, label) == known.end()) {
      refuse(
          fmt::format("{}: unknown score \"{}\"{} (a label of your own needs [scores.{}] "
                      "model.score = …)",
                      file, label, did_you_mean(label, known, "\"", "\""), label));
    }
    own.push_back({"model", "score", label, file});
  }
  return settings;
}

/// What an endpoint names has to be there, and its metrics have to be comparable.
void check_endpoint(const EndpointConfig& endpoint, const std::vector<Variant>& variants,
                    const ExperimentConfig& experiment, const std::string& origin) {
  const auto variant = std::ranges::find(variants, endpoint.variant, &Variant::name);
  if (variant == variants.end()) {
    std::vector<std::string> names;
    for (const Variant& one : variants) names.push_back(one.name);
    refuse(fmt::format("{}: endpoint.variant = \"{}\": there is no such variant; there are {}{}",
                       origin, endpoint.variant, fmt::join(names, ", "),
                       did_you_mean(endpoint.variant, names)));
  }
  if (std::ranges::find(experiment.evaluations, endpoint.evaluation) ==
      experiment.evaluations.end()) {
    refuse(fmt::format("{}: endpoint.evaluation = \"{}\": not one of experiment.evaluations",
                       origin, endpoint.evaluation));
  }
  check_distinct(endpoint.scores, "endpoint.scores", origin);
  for (const std::string& score : endpoint.scores) {
    const auto& known = variant->scores;
    if (score != kBaselineScore && std::ranges::find(known, score) != known.end()) continue;
    refuse(fmt::format("{}: endpoint.scores: \"{}\" is not compared with {} in {}", origin, score,
                       kBaselineScore, endpoint.variant));
  }
  check_distinct(endpoint.metrics, "endpoint.metrics", origin);
  for (const std::string& metric : endpoint.metrics) {
    const MetricKind& kind = metric_kind(metric);
    if (kind.better == Better::neither || kind.scale != metric_kind(endpoint.metrics[0]).scale) {
      refuse(fmt::format("{}: endpoint.metrics: \"{}\": expected errors or accuracies on one scale",
                         origin, metric));
    }
  }
}

std::vector<EndpointConfig> read_endpoints(toml::table& table, const std::vector<Variant>& variants,
                                           const ExperimentConfig& experiment,
                                           const std::string& file) {
  std::vector<EndpointConfig> endpoints;
  std::vector<std::string> names;
  for (toml::table* element : tables_of(table, "endpoint", file)) {
    EndpointConfig& endpoint = endpoints.emplace_back();
    endpoint.evaluation = experiment.evaluations.front();
    for (const auto& [key, value] : *element) read_field(endpoint, key.str(), value, file);
    const std::string origin = place(file, *element);
    if (endpoint.name.empty()) refuse(fmt::format("{}: endpoint.name is missing", origin));
    check_endpoint(endpoint, variants, experiment, origin);
    names.push_back(endpoint.name);
  }
  if (!names.empty()) check_distinct(names, "[[endpoint]]", file);
  return endpoints;
}

/// What [evaluation] gives, checked.
Json read_evaluation(toml::table& table, const std::string& file) {
  Json given = Json::object();
  toml::node* node = table.get("evaluation");
  if (node == nullptr) return given;
  for (const auto& [key, value] : as_table(*node, "evaluation", file)) {
    const std::string origin = place(file, value);
    given.update(checked_options({{std::string(key), toml_to_json(value, origin)}}, origin));
  }
  return given;
}

/// The suite's own checks, before any cell has run.
void check_evaluation(const Experiment& experiment) {
  const Json& given = experiment.evaluation;
  for (const Cell& cell : experiment.cells) {
    for (const std::string& evaluation : experiment.settings.evaluations) {
      const std::string task(name_of(cell.config.task.name));
      if (find_suite(evaluation)->is_for(task)) continue;
      refuse(fmt::format("{}: experiment.evaluations: {} is not for task.name = \"{}\"",
                         experiment.file.string(), evaluation, task));
    }
  }
  for (const auto& [key, value] : given.items()) {
    const auto& suites = experiment.settings.evaluations;
    const auto has = [&, &name = key](const auto& s) { return takes(find_suite(s)->kind, name); };
    if (std::ranges::any_of(suites, has)) continue;
    refuse(fmt::format("{}: evaluation.{} does not belong to {}", experiment.file.string(), key,
                       fmt::join(suites, ", ")));
  }
  if (!experiment.measures_shifts()) return;
  try {
    EvaluationOptions options;
    for (const auto& [key, value] : given.items()) {
      set_option(options, {"evaluation", key, value, experiment.file.string()});
    }
    for (const Cell& cell : experiment.cells) {
      icl_shifts(icl_task(cell.config.task.name), options.icl_shift);
    }
  } catch (const std::invalid_argument& error) {
    refuse(fmt::format("{}: [evaluation]: {}", experiment.file.string(), error.what()));
  }
}

ExperimentConfig read_experiment(toml::table& table, const std::string& file) {
  if (!table.contains("experiment")) {
    refuse(fmt::format("{}: there is no [experiment]; a training config is for `ssa train`", file));
  }
  ExperimentConfig settings;
  for (const auto& [key, value] : as_table(*table.get("experiment"), "experiment", file)) {
    read_field(settings, key.str(), value, file);
  }
  check_name(settings.name, "experiment.name", file);
  settings.scores = expanded(settings.scores);
  check_distinct(settings.scores, "experiment.scores", file);
  check_distinct(settings.evaluations, "experiment.evaluations", file);
  if (settings.margin != 0 && settings.margin <= 1) {
    refuse(fmt::format("{}: experiment.margin = {}: expected a factor above 1, or 0 for none", file,
                       settings.margin));
  }
  return settings;
}

/// Settings from the most general to the most special; later ones hold.
Config cell_config(const std::vector<const Settings*>& layers, std::int64_t seed,
                   const std::string& origin) {
  Settings settings;
  for (const Settings* layer : layers) {
    for (const Setting& setting : *layer) {
      if (setting.section == "train" && setting.key == "seed") {
        refuse(fmt::format("{}: train.seed: the cells are numbered by experiment.seeds",
                           setting.origin));
      }
      settings.push_back(setting);
    }
  }
  settings.push_back({"train", "seed", seed, origin});
  return make_config(settings, origin);
}

}  // namespace

std::filesystem::path Cell::run() const {
  return std::filesystem::path("runs") / variant / score / fmt::format("seed-{}", seed);
}

std::string Cell::name() const { return fmt::format("{} {} seed {}", variant, score, seed); }

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  for (const SuiteInfo& suite : kSuites) names.emplace_back(suite.name);
  return names;
}

Experiment load_experiment(const std::filesystem::path& path, const Settings& overrides) {
  toml::table table = read_toml(path);
  const std::string file = path.string();
  Experiment experiment;
  experiment.file = path;
  experiment.settings = read_experiment(table, file);
  experiment.evaluation = read_evaluation(table, file);
  const std::vector<Variant> variants = read_variants(table, experiment.settings, file);
  experiment.endpoints = read_endpoints(table, variants, experiment.settings, file);
  std::set<std::string> used;
  std::int64_t seeds = 0;
  for (const Variant& variant : variants) {
    experiment.variants.push_back(variant.name);
    used.insert(variant.scores.begin(), variant.scores.end());
    seeds = std::max(seeds, variant.seeds);
  }
  const auto scores = read_scores(table, used, file);
  if (const toml::table* model = table["model"].as_table(); model != nullptr) {
    if (const toml::node* score = model->get("score"); score != nullptr) {
      refuse(
          fmt::format("{}: model.score: scores of an experiment stand in experiment.scores or in "
                      "[scores.LABEL]",
                      place(file, *score)));
    }
  }
  // What is left is a training config: what every cell starts from.
  for (const char* own : {"experiment", "evaluation", "scores", "variant", "endpoint"}) {
    table.erase(own);
  }
  const Settings base = toml_settings(table, file);
  const std::int64_t first_seed = experiment.settings.first_seed;
  for (std::int64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    for (const Variant& variant : variants) {
      if (seed - first_seed >= variant.seeds) continue;
      for (const std::string& score : variant.scores) {
        const std::string origin =
            fmt::format("{}: variant {}, score {}", file, variant.name, score);
        experiment.cells.push_back(
            {variant.name, score, seed,
             cell_config({&base, &variant.settings, &scores.at(score), &overrides}, seed, origin)});
      }
    }
  }
  check_evaluation(experiment);
  return experiment;
}

Json evaluation_options(const Experiment& experiment, const Cell& cell) {
  Json options = experiment.evaluation;
  if (!experiment.measures_shifts()) return options;
  options["data_seed"] = options.value("data_seed", IclShiftOptions().data_seed) + cell.seed;
  return options;
}

const Cell* find_cell(const Experiment& experiment, const std::string& variant,
                      const std::string& score, std::int64_t seed) {
  const auto found = std::ranges::find_if(experiment.cells, [&](const Cell& cell) {
    return cell.variant == variant && cell.score == score && cell.seed == seed;
  });
  return found == experiment.cells.end() ? nullptr : &*found;
}

std::string first_difference(const Json& before, const Json& now) {
  // Flattened, a config is "/train/steps" -> value.
  const Json old_fields = before.flatten();
  const Json new_fields = now.flatten();
  const auto shown = [](const Json& fields, const std::string& key) {
    return fields.contains(key) ? fields.at(key).dump() : std::string("absent");
  };
  std::set<std::string> keys;
  for (const auto& fields : {old_fields, new_fields}) {
    for (const auto& [key, value] : fields.items()) keys.insert(key);
  }
  keys.erase("/train/threads");
  keys.erase("");  // what an empty object is flattened to
  for (const std::string& key : keys) {
    const std::string was = shown(old_fields, key);
    const std::string is = shown(new_fields, key);
    if (was == is) continue;
    std::string name = key.substr(1);
    std::ranges::replace(name, '/', '.');
    return fmt::format("{} = {}, now {}", name, was, is);
  }
  return "";
}

}  // namespace ssa
