#include "eval/icl_shift.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <tuple>

#include "eval/baselines.h"

namespace ssa {
namespace {

// Large enough that a width of 64 keeps two cores busy, small enough that 200 points of a 12-layer
// model stay in memory.
constexpr std::int64_t kPointTokensPerForward = 8192;

template <class T>
std::vector<T> range(T first, T last) {
  std::vector<T> values(static_cast<std::size_t>(last - first) + 1);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// None twice: a row is known by its value.
template <class T>
void check_distinct(const char* option, const std::vector<T>& values) {
  for (auto value = values.begin(); value != values.end(); ++value) {
    if (std::find(values.begin(), value, *value) != value) {
      throw std::invalid_argument(fmt::format("--{} {}: stands twice", option, *value));
    }
  }
}

void check_options(const IclShiftOptions& options) {
  check_section(options, "icl-shift");
  check_distinct("length", options.length);
  check_distinct("sigma", options.sigma);
  check_distinct("coefficients", options.coefficients);
  check_distinct("huge", options.huge);
  if (std::ranges::find(options.huge, 0.0) != options.huge.end()) {
    throw std::invalid_argument("--huge 0: must be a number other than 0");
  }
}

std::vector<Figure> figures_of(const IclSpec& spec, const torch::Tensor& predictions,
                               const torch::Tensor& targets) {
  const auto planted =
      spec.planted ? std::optional(spec.planted->position) : std::optional<std::int64_t>();
  return spec.task == IclTask::linear ? linear_figures(predictions, targets, planted)
                                      : quantifier_figures(predictions, targets, planted);
}

torch::Tensor predict(Model& model, const IclSequences& sequences) {
  const std::int64_t count = sequences.x.size(0), points = sequences.x.size(1);
  const std::int64_t batch = std::max<std::int64_t>(1, kPointTokensPerForward / (2 * points));
  std::vector<torch::Tensor> predictions;
  for (std::int64_t first = 0; first < count; first += batch) {
    const std::int64_t last = std::min(first + batch, count);
    predictions.push_back(icl_predictions(model.forward(
        icl_tokens(sequences.x.slice(0, first, last), sequences.y.slice(0, first, last)))));
  }
  const torch::Tensor all = torch::cat(predictions).cpu();
  if (torch::isfinite(all).all().item<bool>()) return all;
  throw std::runtime_error(fmt::format(
      "the model's predictions are not finite for inputs of up to {:.3g}: float32 ends at 3.4e38, "
      "and products of inputs count",
      sequences.x.abs().max().item<double>()));
}

/// Evaluates settings; those that only differ in the shift's name (none is sigma 1) are run once.
class Evaluator {
 public:
  Evaluator(Model& model, const IclShiftOptions& options) : model_(model), options_(options) {}

  std::vector<PredictorFigures> predictors(const IclSpec& spec) {
    const Key key{spec.points, spec.sigma_x, spec.sigma_coefficients,
                  spec.planted ? spec.planted->value : 0.0};
    const auto known = known_.find(key);
    return known != known_.end() ? known->second : known_.emplace(key, measure(spec)).first->second;
  }

  std::vector<HeadStatistics> attention(IclSpec spec) {
    spec.sequences = std::min(spec.sequences, kAttentionSequences);
    const IclSequences sequences = draw(spec);
    model_.record_attention(true);
    model_.forward(icl_tokens(sequences.x, sequences.y));
    // The x of point i is token 2i.
    auto found = attention_statistics(
        model_.attention_records(),
        spec.planted ? std::optional(2 * spec.planted->position) : std::optional<std::int64_t>());
    model_.record_attention(false);
    return found;
  }

 private:
  using Key = std::tuple<std::int64_t, double, double, double>;

  IclSequences draw(const IclSpec& spec) const {
    return make_icl_sequences(spec, static_cast<std::uint64_t>(options_.data_seed),
                              RandomStream::evaluation, 0);
  }

  std::vector<PredictorFigures> measure(const IclSpec& spec) {
    const IclSequences sequences = draw(spec);
    const torch::Tensor x = sequences.x.to(torch::kDouble), y = sequences.y.to(torch::kDouble);
    std::vector<PredictorFigures> found = {
        {"model", figures_of(spec, predict(model_, sequences), y)}};
    for (const Baseline& baseline : baselines(spec.task == IclTask::linear, x, y)) {
      found.push_back({baseline.name, figures_of(spec, baseline.predictions, y)});
    }
    return found;
  }

  Model& model_;
  const IclShiftOptions& options_;
  std::map<Key, std::vector<PredictorFigures>> known_;
};

/// 5 rather than 5.0 for whole values, so that the file says what the flag said.
Json number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return value;
}

Json numbers(const std::vector<double>& values) {
  Json out = Json::array();
  for (const double value : values) out.push_back(number(value));
  return out;
}

/// {"shift", "value"} with the value as docs/formats.md has it.
Json shift_fields(const IclShift& shift) {
  Json out = {{"shift", shift.name}};
  out["value"] = shift.value.empty()       ? Json()
                 : shift.value.size() == 1 ? number(shift.value[0])
                                           : numbers(shift.value);
  return out;
}

Json row_fields(const IclShift& shift, const std::string& predictor, const Figure& figure) {
  Json row = shift_fields(shift);
  row["points"] = shift.spec.points;
  row["predictor"] = predictor;
  row["metric"] = figure.metric;
  row["mean"] = figure.mean;
  row["standard_error"] = figure.standard_error;
  row["items"] = figure.items;
  if (figure.wrong) row["wrong"] = *figure.wrong;
  if (!figure.per_position.empty()) row["per_position"] = figure.per_position;
  return row;
}

Json attention_fields(const IclShift& shift, const HeadStatistics& head) {
  Json row = shift_fields(shift);
  row["layer"] = head.layer;
  row["head"] = head.head;
  if (head.mass) row["mass_on_huge"] = *head.mass;
  row["entropy"] = head.entropy;
  row["p_max"] = head.p_max;
  return row;
}

/// `wrong` of the constant answer without a shift; null for linear functions.
Json majority(const std::vector<IclShiftResult>& results) {
  for (const IclShiftResult& result : results) {
    if (result.shift.name != "none") continue;
    for (const PredictorFigures& predictor : result.predictors) {
      if (predictor.predictor == "constant") return predictor.figures.front().mean;
    }
  }
  return nullptr;
}

}  // namespace

IclSweep icl_sweep(IclTask task, const IclShiftOptions& options) {
  IclSweep sweep;
  sweep.huge = {10, 100, 1000, -10, -100, -1000};
  switch (options.grid) {
    case ShiftGrid::reduced:
      sweep.lengths = {41, 80, 200};
      sweep.sigmas = {1, 2, 5, 10, 40};
      sweep.coefficients = {1, 2, 5, 10};
      break;
    case ShiftGrid::full:
      sweep.lengths = {41, 50, 80, 120, 200};
      sweep.sigmas = range(1.0, task == IclTask::linear ? 10.0 : 40.0);
      sweep.coefficients = range(1.0, 10.0);
      break;
  }
  if (!options.length.empty()) sweep.lengths = options.length;
  if (!options.sigma.empty()) sweep.sigmas = options.sigma;
  if (!options.huge.empty()) sweep.huge = options.huge;
  if (options.coefficients.empty()) return sweep;
  if (task != IclTask::linear) {
    throw std::invalid_argument("--coefficients: only icl-linear has coefficients");
  }
  sweep.coefficients = options.coefficients;
  return sweep;
}

std::vector<IclShift> icl_shifts(IclTask task, const IclShiftOptions& options) {
  check_options(options);
  IclSpec base;
  base.task = task;
  base.sampler = options.sampler.value_or(base.sampler);
  base.points = kIclPoints;
  base.sequences = options.sequences;
  std::vector<IclShift> shifts = {{"none", {}, base}};
  const auto add = [&](const char* name, std::vector<double> value) -> IclSpec& {
    return shifts.emplace_back(IclShift{name, std::move(value), base}).spec;
  };
  const IclSweep sweep = icl_sweep(task, options);
  for (const std::int64_t points : sweep.lengths) {
    add("length", {static_cast<double>(points)}).points = points;
  }
  for (const double sigma : sweep.sigmas) add("sigma", {sigma}).sigma_x = sigma;
  for (const double value : sweep.huge) {
    add("huge", {value}).planted = PlantedValue{options.huge_position - 1, value};
  }
  if (task != IclTask::linear) return shifts;
  for (const double sigma : sweep.coefficients) {
    add("coefficients", {sigma}).sigma_coefficients = sigma;
  }
  for (const double sigma : sweep.coefficients) {
    IclSpec& spec = add("both", {sigma});
    spec.sigma_x = spec.sigma_coefficients = sigma;
  }
  for (const double sigma_x : sweep.coefficients) {
    for (const double sigma : sweep.coefficients) {
      IclSpec& spec = add("grid", {sigma_x, sigma});
      spec.sigma_x = sigma_x;
      spec.sigma_coefficients = sigma;
    }
  }
  return shifts;
}

std::vector<IclShiftResult> evaluate_icl_shifts(
    Model& model, std::int64_t max_positions, IclTask task, const IclShiftOptions& options,
    const std::function<void(const IclShiftResult&)>& report) {
  const torch::NoGradGuard no_gradients;
  Evaluator evaluator(model, options);
  std::vector<IclShiftResult> results;
  for (const IclShift& shift : icl_shifts(task, options)) {
    IclShiftResult& result = results.emplace_back();
    result.shift = shift;
    if (const std::int64_t tokens = 2 * shift.spec.points; tokens > max_positions) {
      result.skipped = fmt::format("{} tokens are more than the model's max_positions = {}", tokens,
                                   max_positions);
      if (shift.name == "none") {
        throw std::runtime_error(
            fmt::format("icl-shift: {} points: {}", kIclPoints, result.skipped));
      }
    } else {
      try {
        result.predictors = evaluator.predictors(shift.spec);
        if (shift.name == "none" || shift.name == "sigma" || shift.name == "huge") {
          result.attention = evaluator.attention(shift.spec);
        }
      } catch (const std::runtime_error& error) {
        throw std::runtime_error(fmt::format("shift {}{}{:g}: {}", shift.name,
                                             shift.value.empty() ? "" : " ",
                                             fmt::join(shift.value, " x "), error.what()));
      }
    }
    if (report) report(result);
  }
  return results;
}

Json to_json(IclTask task, const IclShiftOptions& options,
             const std::vector<IclShiftResult>& results) {
  const bool linear = task == IclTask::linear;
  const IclSweep sweep = icl_sweep(task, options);
  Json out = {{"grid", options.grid}};
  out["sweep"] = {{"length", sweep.lengths},
                  {"sigma", numbers(sweep.sigmas)},
                  {"coefficients", numbers(linear ? sweep.coefficients : std::vector<double>())},
                  {"huge", numbers(sweep.huge)}};
  out["sampler"] = linear ? Json() : Json(options.sampler.value_or(IclSpec().sampler));
  out["sequences"] = options.sequences;
  out["data_seed"] = options.data_seed;
  out["points"] = kIclPoints;
  out["huge_position"] = options.huge_position;
  out["attention_sequences"] = std::min(options.sequences, kAttentionSequences);
  out["chance"] = linear ? Json() : Json(0.5);
  out["majority"] = majority(results);
  Json rows = Json::array(), attention = Json::array(), skipped = Json::array();
  for (const IclShiftResult& result : results) {
    for (const PredictorFigures& predictor : result.predictors) {
      for (const Figure& figure : predictor.figures) {
        rows.push_back(row_fields(result.shift, predictor.predictor, figure));
      }
    }
    for (const HeadStatistics& head : result.attention) {
      attention.push_back(attention_fields(result.shift, head));
    }
    if (result.skipped.empty()) continue;
    Json entry = shift_fields(result.shift);
    entry["points"] = result.shift.spec.points;
    entry["reason"] = result.skipped;
    skipped.push_back(entry);
  }
  out["rows"] = rows;
  out["attention"] = attention;
  out["skipped"] = skipped;
  return out;
}

}  // namespace ssa
