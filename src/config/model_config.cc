#include "config/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "config/counted.h"

namespace ssa {
namespace {

[[noreturn]] void refuse_model(const std::string& message) { throw std::invalid_argument(message); }

void check_score(const ModelConfig& model, const std::string& origin) {
  const ScoreInfo& score = find_score(model.score);
  if (!model.score_initial.empty() && model.score_initial.size() != score.params.size()) {
    refuse_model(fmt::format("{}: model.score_initial has {}, but {} has {}", origin,
                             counted(model.score_initial.size(), "value"), score.name,
                             counted(score.params.size(), "parameter")));
  }
  const std::vector<double> values = model.initial_score_values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ParamInfo& parameter = score.params[i];
    if (!allows(parameter, model.parametrisation, values[i])) {
      refuse_model(fmt::format(
          "{}: model.score_initial: {} = {} of {} must be above {} with parametrisation {}", origin,
          parameter.name, values[i], score.name, lower_bound(parameter, model.parametrisation),
          name_of(model.parametrisation)));
    }
  }
  const auto known = [&](const std::string& name) {
    return std::ranges::any_of(score.params, [&](const ParamInfo& p) { return p.name == name; });
  };
  for (const auto* list : {&model.score_frozen, &model.score_trained}) {
    for (const std::string& name : *list) {
      const char* key = list == &model.score_frozen ? "score_frozen" : "score_trained";
      if (!known(name)) {
        refuse_model(
            fmt::format("{}: model.{}: {} has no parameter \"{}\"", origin, key, score.name, name));
      }
    }
  }
  if (score.family != ScoreFamily::kPhi && model.score_kernel == ScoreKernel::fused) {
    refuse_model(fmt::format("{}: model.score_kernel = \"fused\": {} has no fused kernel", origin,
                             score.name));
  }
  if (score.family == ScoreFamily::kLinear && model.dropout > 0) {
    refuse_model(fmt::format("{}: model.dropout = {}: {} has no attention weights to drop out",
                             origin, model.dropout, score.name));
  }
  if (score.family == ScoreFamily::kLinear) {
    if (!model.score_trained.empty()) {
      refuse_model(fmt::format("{}: model.score_trained: {} of {} is fixed and cannot be trained",
                               origin, model.score_trained.front(), score.name));
    }
    if (values[0] < static_cast<double>(model.max_positions)) {
      refuse_model(
          fmt::format("{}: model.score_initial: {} = {} of {} must be at least "
                      "model.max_positions = {}",
                      origin, score.params[0].name, values[0], score.name, model.max_positions));
    }
  }
  for (const std::string& name : model.score_frozen) {
    if (std::ranges::find(model.score_trained, name) != model.score_trained.end()) {
      refuse_model(fmt::format("{}: \"{}\" stands in model.score_frozen and in model.score_trained",
                               origin, name));
    }
  }
}

/// Options that are built for a family: others would compute something that no part of the program
/// knows under its name.
Json needs_of(Family family) {
  const Json decoder = {
      {"input", "tokens"}, {"norm_place", "before"}, {"causal", true}, {"token_types", 0}};
  const Json encoder = {{"input", "tokens"}, {"norm_place", "after"}, {"positions", "learned"},
                        {"tied", true},      {"biases", "all"},       {"query_key_norm", false},
                        {"window", 0},       {"mlp_gate", false}};
  switch (family) {
    case Family::number:
      return {{"input", "scalar"}};
    case Family::gpt2:
    case Family::nemotron:
    case Family::llama:
      return decoder;
    case Family::roberta:
    case Family::bert:
      return encoder;
  }
  return {};
}

void check_family(const ModelConfig& model, const std::string& origin) {
  const Json all = section_to_json(model), needs = needs_of(model.family);
  for (const auto& [key, needed] : needs.items()) {
    if (all[key] == needed) continue;
    refuse_model(
        fmt::format("{}: model.{} = {} is not built for model.family = \"{}\", which needs {}",
                    origin, key, all[key].dump(), name_of(model.family), needed.dump()));
  }
  const bool has_table = model.family != Family::nemotron && model.family != Family::llama;
  if (model.positions == Positions::learned && !has_table) {
    refuse_model(fmt::format(
        "{}: model.positions = \"learned\" is not built for model.family = \"{}\", which has "
        "\"rope\" or \"none\"",
        origin, name_of(model.family)));
  }
  if (model.input == InputKind::scalar) return;
  if (model.vocabulary == 0) {
    refuse_model(fmt::format(
        "{}: model.input = \"tokens\" needs model.vocabulary, the number of token ids", origin));
  }
  if (model.pad_id >= model.vocabulary) {
    refuse_model(fmt::format("{}: model.pad_id = {} is not below model.vocabulary = {}", origin,
                             model.pad_id, model.vocabulary));
  }
}

void check_heads(const ModelConfig& model, const std::string& origin) {
  if (model.head_width == 0 && model.width % model.heads != 0) {
    refuse_model(fmt::format("{}: model.width = {} is not a multiple of model.heads = {}", origin,
                             model.width, model.heads));
  }
  if (model.heads % model.key_value_heads() != 0) {
    refuse_model(fmt::format("{}: model.heads = {} is not a multiple of model.kv_heads = {}",
                             origin, model.heads, model.kv_heads));
  }
}

void check_positions(const ModelConfig& model, const std::string& origin) {
  if (model.positions == Positions::rope &&
      (model.rotary_dim() % 2 != 0 || model.rotary_dim() == 0)) {
    refuse_model(fmt::format(
        "{}: model.positions = \"rope\" turns pairs of dimensions, but of a head's "
        "{} = {} it would turn {} (model.rotary_share = {})",
        origin, model.head_width == 0 ? "model.width / model.heads" : "model.head_width",
        model.head_dim(), model.rotary_dim(), model.rotary_share));
  }
  const bool scaled = model.rotary_scaling != RotaryScaling::none;
  if (scaled && model.positions != Positions::rope) {
    refuse_model(fmt::format("{}: model.rotary_scaling = \"{}\" needs model.positions = \"rope\"",
                             origin, name_of(model.rotary_scaling)));
  }
  if (scaled && model.rotary_low >= model.rotary_high) {
    refuse_model(fmt::format("{}: model.rotary_low = {} is not below model.rotary_high = {}",
                             origin, model.rotary_low, model.rotary_high));
  }
}

}  // namespace

std::vector<std::string> score_names() {
  std::vector<std::string> names;
  for (const ScoreInfo& score : scores()) names.emplace_back(score.name);
  return names;
}

void check_model(const ModelConfig& model, const std::string& origin) {
  check_heads(model, origin);
  check_positions(model, origin);
  check_family(model, origin);
  check_score(model, origin);
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

}  // namespace ssa
