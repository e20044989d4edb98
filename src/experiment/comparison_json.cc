// A comparison as files: table.json and verdicts.json (docs/formats.md).
#include <cmath>

#include "experiment/comparison.h"

namespace ssa {
namespace {

std::string_view name_of(RowRole role) {
  switch (role) {
    case RowRole::counted:
      return "counted";
    case RowRole::control:
      return "control";
    case RowRole::repeat:
      return "repeat";
    case RowRole::description:
      break;
  }
  return "description";
}

// nlohmann/json writes a number that is not finite as null.

void add_measure(Json& out, const Measure& measure) {
  out["better"] = name_of(measure.better);
  out["scale"] = name_of(measure.scale);
  out["unit"] = measure.unit;
}

/// The difference to softmax, taken back from the scale; nulls where there is none.
void add_effect(Json& out, const Measure& measure, const Effect& effect, double p_adjusted) {
  const PairedTest& test = effect.test;
  const Estimate& difference = test.difference;
  const bool paired = difference.count > 0;
  const auto back = [&](double value) {
    return paired ? Json(measure.back_effect(value)) : Json();
  };
  out["effect"] = back(difference.mean);
  out["effect_low"] = back(difference.mean - difference.half_width);
  out["effect_high"] = back(difference.mean + difference.half_width);
  out["p"] = paired ? Json(test.p) : Json();
  out["p_adjusted"] = paired ? Json(p_adjusted) : Json();
  out["p_sign_flip"] = effect.sign_flip_p ? Json(*effect.sign_flip_p) : Json();
  out["detectable"] = back(test.detectable);
}

/// The keys of earlier versions: plain differences, and ratios of what is compared by logarithms.
void add_plain(Json& out, const ComparisonRow& row) {
  out["mean"] = row.value.mean;
  out["interval"] = row.value.half_width;
  const bool paired = row.plain_difference.count > 0;
  out["difference"] = paired ? Json(row.plain_difference.mean) : Json();
  out["difference_interval"] = paired ? Json(row.plain_difference.half_width) : Json();
  const bool ratio = row.measure.scale == Scale::log;
  for (const auto& [old, now] : {std::pair{"ratio", "effect"}, std::pair{"ratio_low", "effect_low"},
                                 std::pair{"ratio_high", "effect_high"}}) {
    out[old] = ratio ? out.at(now) : Json();
  }
}

Json row_json(const ComparisonRow& row) {
  Json out = {
      {"variant", row.variant}, {"metric", row.metric},         {"score", row.score},
      {"task", row.task},       {"evaluation", row.evaluation}, {"seeds", row.seeds},
      {"steps", row.steps},     {"batch", row.batch},           {"layers", row.layers},
      {"heads", row.heads},     {"width", row.width},           {"parameters", row.parameters}};
  add_measure(out, row.measure);
  out["role"] = name_of(row.role);
  out["repeats"] = row.repeats;
  out["family"] = row.in_table ? "table" : "others";
  const Estimate& centre = row.centre;
  out["centre"] = row.measure.back(centre.mean);
  out["centre_low"] = row.measure.back(centre.mean - centre.half_width);
  out["centre_high"] = row.measure.back(centre.mean + centre.half_width);
  add_effect(out, row.measure, row.effect, row.p_adjusted);
  add_plain(out, row);
  out["verdict"] = row.verdict;
  out["baselines"] = Json::object();
  for (const auto& [name, value] : row.baselines) out["baselines"][name] = value;
  return out;
}

Json endpoint_json(const EndpointRow& row) {
  Json out = {{"name", row.endpoint.name},
              {"variant", row.endpoint.variant},
              {"score", row.score},
              {"evaluation", row.endpoint.evaluation},
              {"metrics", row.endpoint.metrics},
              {"seeds", row.seeds},
              {"planned", row.planned}};
  add_measure(out, row.measure);
  add_effect(out, row.measure, row.effect, row.p_adjusted);
  out["verdict"] = row.verdict;
  return out;
}

}  // namespace

Json to_json(const std::vector<ComparisonRow>& rows) {
  Json out = Json::array();
  for (const ComparisonRow& row : rows) out.push_back(row_json(row));
  return out;
}

Json verdicts_json(const Experiment& experiment, std::int64_t finished_cells,
                   const std::vector<ComparisonRow>& rows,
                   const std::vector<EndpointRow>& endpoints) {
  Json counts = Json::array(), decided = Json::array();
  for (const VerdictCount& count : count_verdicts(rows)) {
    counts.push_back({{"score", count.score},
                      {"comparisons", count.comparisons},
                      {"better", count.better},
                      {"worse", count.worse},
                      {"equivalent", count.equivalent},
                      {"not decided", count.not_decided}});
  }
  for (const EndpointRow& row : endpoints) decided.push_back(endpoint_json(row));
  return {{"schema", 1},
          {"experiment", experiment.settings.name},
          {"seeds_planned", experiment.settings.seeds},
          {"cells", experiment.cells.size()},
          {"cells_finished", finished_cells},
          {"margin", experiment.settings.margin},
          {"percent_margin", experiment.settings.percent_margin},
          {"counts", counts},
          {"endpoints", decided}};
}

}  // namespace ssa
