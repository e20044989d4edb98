#include "experiment/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <stdexcept>

#include "config/counted.h"
#include "eval/icl_shift.h"
#include "eval/metric_kind.h"
#include "files/durable_files.h"
#include "files/file_descriptor.h"
#include "files/lines.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

/// values[key] as T. Throws naming `origin` and the key.
template <class T>
T field(const Json& values, const char* key, const std::string& origin) {
  return json_field<T>(values, key, origin);
}

/// A number, NaN where the file holds null.
double number(const Json& values, const char* key, const std::string& origin) {
  return values.contains(key) && values.at(key).is_null() ? std::numeric_limits<double>::quiet_NaN()
                                                          : field<double>(values, key, origin);
}

/// `values`, checked to be an object of numbers (null: not finite).
const Json& numbers(const Json& values, const char* key, const std::string& origin) {
  const auto good = [](const Json& value) { return value.is_number() || value.is_null(); };
  if (!values.is_object() || !std::ranges::all_of(values, good)) {
    throw std::runtime_error(
        fmt::format("{}: field \"{}\": expected an object of numbers", origin, key));
  }
  return values;
}

/// values["score_parameters"], checked: a list of objects of lists of numbers (null: not finite).
Json score_parameters(const Json& values, const std::string& origin) {
  constexpr const char* kKey = "score_parameters";
  if (!values.contains(kKey)) return Json::array();
  Json layers = values.at(kKey);
  const auto good = [](const Json& heads) {
    return heads.is_array() && !heads.empty() &&
           std::ranges::all_of(heads, [](const Json& v) { return v.is_number() || v.is_null(); });
  };
  const bool valid = layers.is_array() && std::ranges::all_of(layers, [&](const Json& layer) {
                       return layer.is_object() && std::ranges::all_of(layer, good);
                     });
  if (!valid) {
    throw std::runtime_error(fmt::format(
        "{}: field \"{}\": expected for each layer an object of lists of numbers", origin, kKey));
  }
  return layers;
}

/// How the metrics of these keys are compared, by their names.
Json kinds(const Json& metrics) {
  Json out = Json::object();
  for (const auto& [key, value] : metrics.items()) {
    const std::string name(metric_name(key));
    if (out.contains(name)) continue;
    const MetricKind& kind = metric_kind(name);
    out[name] = {{"better", name_of(kind.better)}, {"scale", name_of(kind.scale)}};
    if (!kind.unit.empty()) out[name]["unit"] = kind.unit;
  }
  return out;
}

/// `values`, checked: for known metrics two whole numbers, errors and chances.
const Json& counts(const Json& values, const Json& metrics, const std::string& origin) {
  const auto whole = [](const Json& value) { return value.is_number_integer() && value >= 0; };
  bool good = values.is_object();
  for (const auto& [key, pair] : values.items()) {
    good = good && metrics.contains(key) && pair.is_array() && pair.size() == 2 && whole(pair[0]) &&
           whole(pair[1]) && pair[0] <= pair[1] && pair[1] > 0;
  }
  if (!good) {
    throw std::runtime_error(
        fmt::format("{}: field \"counts\": expected for error rates [errors, chances]", origin));
  }
  return values;
}

/// Chances of an error that the rate of that key was taken over, of the evaluation with these
/// options; 0 if it is not the rate of an in-context task.
std::int64_t chances(const std::string& key, const Json& options) {
  if (metric_kind(key).scale != Scale::log_odds) return 0;
  const std::int64_t sequences = options.value("sequences", IclShiftOptions().sequences);
  if (metric_kind(key).name == "sequence-wrong") return sequences;
  const std::size_t first = key.find('/'), last = key.rfind('/');
  if (first == std::string::npos || first == last) return 0;
  const std::int64_t points = std::atoll(key.substr(first + 1, last - first - 1).c_str());
  const std::int64_t huge = options.value("huge_position", IclShiftOptions().huge_position);
  switch (metric_part(key)) {
    case MetricPart::before:
      return sequences * (huge - 1);
    case MetricPart::at:
      return sequences;
    case MetricPart::after:
      return sequences * (points - huge);
    case MetricPart::whole:
      break;
  }
  return sequences * points;
}

/// The counts of a line that has none: rates are exact quotients of whole numbers.
Json counts_of_rates(const CellResult& r) {
  Json out = Json::object();
  if (r.evaluation != "icl-shift") return out;
  for (const auto& [key, value] : r.metrics.items()) {
    const std::int64_t all = value.is_number() ? chances(key, r.options) : 0;
    if (all == 0) continue;
    const double errors = value.get<double>() * static_cast<double>(all);
    if (std::abs(errors - std::round(errors)) > 1e-3) continue;
    out[key] = {std::llround(errors), all};
  }
  return out;
}

Json to_json(const CellResult& r) {
  return {{"variant", r.variant},
          {"score", r.score},
          {"seed", r.seed},
          {"task", r.task},
          {"evaluation", r.evaluation},
          {"steps", r.steps},
          {"parameters", r.parameters},
          {"layers", r.layers},
          {"width", r.width},
          {"heads", r.heads},
          {"batch", r.batch},
          {"seconds", r.seconds},
          {"run", r.run},
          {"metrics", r.metrics},
          {"counts", r.counts},
          {"kinds", kinds(r.metrics)},
          {"baselines", r.baselines},
          {"score_parameters", r.score_parameters},
          {"config", r.config},
          {"options", r.options},
          {"data", r.data},
          {"program", r.program}};
}

CellResult from_json(const Json& values, const std::string& origin) {
  CellResult r;
  r.variant = field<std::string>(values, "variant", origin);
  r.score = field<std::string>(values, "score", origin);
  r.seed = field<std::int64_t>(values, "seed", origin);
  r.task = field<std::string>(values, "task", origin);
  r.evaluation = field<std::string>(values, "evaluation", origin);
  r.steps = field<std::int64_t>(values, "steps", origin);
  r.parameters = field<std::int64_t>(values, "parameters", origin);
  r.layers = field<std::int64_t>(values, "layers", origin);
  r.width = field<std::int64_t>(values, "width", origin);
  r.heads = field<std::int64_t>(values, "heads", origin);
  r.batch = field<std::int64_t>(values, "batch", origin);
  r.seconds = number(values, "seconds", origin);
  r.run = field<std::string>(values, "run", origin);
  r.metrics = numbers(field<Json>(values, "metrics", origin), "metrics", origin);
  r.baselines = field<Json>(values, "baselines", origin);
  for (const Json& predictor : r.baselines) numbers(predictor, "baselines", origin);
  r.score_parameters = score_parameters(values, origin);
  r.config = field<Json>(values, "config", origin);
  r.options = field<Json>(values, "options", origin);
  if (values.contains("data")) r.data = field<std::string>(values, "data", origin);
  if (values.contains("program")) r.program = field<Json>(values, "program", origin);
  r.counts = values.contains("counts")
                 ? counts(field<Json>(values, "counts", origin), r.metrics, origin)
                 : counts_of_rates(r);
  return r;
}

/// "sigma=5", "none", "grid=5x2": the part of a metric's key that names the shift.
std::string shift_key(const Json& row, const std::string& origin) {
  const auto shift = field<std::string>(row, "shift", origin);
  std::string value;
  if (row.contains("value") && row.at("value").is_array()) {
    for (const Json& part : row.at("value")) {
      if (!part.is_number()) {
        throw std::runtime_error(fmt::format("{}: field \"value\": expected numbers, found {}",
                                             origin, json_text(part)));
      }
      value += fmt::format("{}{:g}", value.empty() ? "=" : "x", part.get<double>());
    }
  } else if (row.contains("value") && row.at("value").is_number() && shift != "none") {
    value = fmt::format("={:g}", row.at("value").get<double>());
  }
  return shift + value;
}

/// "sigma=5/40/wrong", or "binding-principle_a/accuracy" of minimal pairs.
std::string metric_key(const Json& row, const std::string& origin) {
  const auto metric = field<std::string>(row, "metric", origin);
  for (const char* measured : {"paradigm", "text"}) {
    if (!row.contains(measured)) continue;
    return fmt::format("{}/{}", field<std::string>(row, measured, origin), metric);
  }
  return fmt::format("{}/{}/{}", shift_key(row, origin), field<std::int64_t>(row, "points", origin),
                     metric);
}

/// Means over the heads of the last layer of what evals/icl-shift.json says about attention.
void add_attention(Json& metrics, const Json& evaluation, const std::string& origin) {
  if (!evaluation.contains("attention")) return;
  const Json& rows = evaluation.at("attention");
  std::int64_t last = 0;
  for (const Json& row : rows) last = std::max(last, field<std::int64_t>(row, "layer", origin));
  std::map<std::string, std::int64_t> heads;
  for (const Json& row : rows) {
    if (field<std::int64_t>(row, "layer", origin) != last) continue;
    const std::string shift = shift_key(row, origin);
    const auto seen = static_cast<double>(heads[shift]++);
    for (const auto& [name, key] : {std::pair{"mass_on_huge", "mass-on-huge"},
                                    std::pair{"entropy", "entropy"}, std::pair{"p_max", "p-max"}}) {
      if (!row.contains(name)) continue;
      Json& mean = metrics[fmt::format("{}/last-layer/{}", shift, key)];
      const double before = mean.is_number() ? mean.get<double>() : 0.0;
      mean = before + (number(row, name, origin) - before) / (seen + 1);
    }
  }
}

/// From metrics.jsonl: the mean loss of the lines of the last tenth of the steps, the loss of the
/// last validation, and of a step the machine's time, whatever else it did.
void add_training(Json& metrics, const fs::path& run, std::int64_t steps) {
  const fs::path file = run / "metrics.jsonl";
  double losses = 0, count = 0;
  for_each_line(file, [&](std::string_view line) {
    const Json values = parse_json(line);
    if (!values.is_object()) throw std::invalid_argument("is no object");
    if (values.contains("validation")) {
      metrics["training/validation-loss"] = number(values["validation"], "loss", file.string());
    }
    if (!values.contains("seconds")) return;
    const auto step = field<std::int64_t>(values, "step", file.string());
    if (10 * step > 9 * steps) {
      losses += number(values, "loss", file.string());
      count += 1;
    }
    metrics["training/milliseconds-per-step"] =
        1000 * number(values, "seconds", file.string()) / static_cast<double>(step);
  });
  if (count > 0) metrics["training/loss"] = losses / count;
}

/// Which program trained and which evaluated.
Json program_of(const fs::path& run_file, const Json& evaluation) {
  const Json run = read_json(run_file);
  Json program = Json::object();
  for (const char* key : {"git", "target", "resumed_by"}) {
    if (run.contains(key)) program[key] = run.at(key);
  }
  const Json evaluating = evaluation.value("program", Json::object());
  if (evaluating.value("git", "") != program.value("git", "") ||
      evaluating.value("target", "") != program.value("target", "")) {
    program["evaluated_by"] = evaluating;
  }
  return program;
}

}  // namespace

std::vector<CellResult> read_results(const fs::path& file, bool& cut_off) {
  cut_off = false;
  std::vector<CellResult> results;
  if (!fs::exists(file)) return results;
  for_each_text_line(file, [&](const TextLine& line) {
    cut_off = !line.ended;
    if (cut_off) return;
    const std::string origin = fmt::format("{}:{}", file.string(), line.number);
    results.push_back(from_json(parse_json(line.text), origin));
  });
  return results;
}

bool shares_test_sequences(const CellResult& result) {
  return result.evaluation == "icl-shift" && !result.options.contains("data_seed");
}

void append_result(const fs::path& file, const CellResult& result) {
  const std::string line = json_text(to_json(result)) + "\n";
  const std::string text = fs::exists(file) ? read_file(file) : "";
  const std::size_t whole = text.rfind('\n') + 1;  // npos + 1 = 0: no complete line
  if (whole != text.size()) fs::resize_file(file, whole);
  FileWriter out(file, FileWriter::Start::append);
  out.write(line);
  out.sync();
}

CellResult collect_result(const Cell& cell, const fs::path& folder, const std::string& evaluation,
                          const Json& options) {
  const fs::path run_file = folder / cell.run() / "run.json";
  const fs::path file = folder / cell.run() / "evals" / (evaluation + ".json");
  const std::string origin = file.string();
  const Json values = read_json(file);
  CellResult r;
  r.variant = cell.variant;
  r.score = cell.score;
  r.seed = cell.seed;
  r.task = name_of(cell.config.task.name);
  r.evaluation = evaluation;
  r.steps = field<std::int64_t>(values, "step", origin);
  r.parameters = field<std::int64_t>(read_json(run_file), "parameters", run_file.string());
  r.layers = cell.config.model.layers;
  r.width = cell.config.model.width;
  r.heads = cell.config.model.heads;
  r.batch = cell.config.train.batch * cell.config.train.accumulation;
  r.run = cell.run().generic_string();
  r.config = to_json(cell.config);
  r.options = options;
  if (values.contains("data")) r.data = field<std::string>(values, "data", origin);
  if (r.steps != cell.config.train.steps) {
    throw std::runtime_error(fmt::format("{}: evaluates step {}, but the cell trains {}", origin,
                                         r.steps, counted(cell.config.train.steps, "step")));
  }
  r.metrics = Json::object();
  r.baselines = Json::object();
  for (const Json& row : field<Json>(values, "rows", origin)) {
    const auto predictor = field<std::string>(row, "predictor", origin);
    Json& place = predictor == "model" ? r.metrics : r.baselines[predictor];
    const std::string key = metric_key(row, origin);
    place[key] = number(row, "mean", origin);
    if (predictor == "model" && row.contains("wrong")) {
      r.counts[key] = {field<std::int64_t>(row, "wrong", origin),
                       field<std::int64_t>(row, "items", origin)};
    }
  }
  add_attention(r.metrics, values, origin);
  add_training(r.metrics, folder / cell.run(), r.steps);
  r.program = program_of(run_file, values);
  r.score_parameters = score_parameters(values, origin);
  return r;
}

}  // namespace ssa
