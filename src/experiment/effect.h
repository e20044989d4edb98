// The effect of a score on a metric: paired differences to softmax on the metric's scale.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "eval/metric_kind.h"
#include "experiment/results.h"
#include "experiment/statistics.h"

namespace ssa {

/// How values of a metric are compared.
struct Measure {
  Better better = Better::neither;
  Scale scale = Scale::plain;
  std::string_view unit = "";

  double back(double value) const;         ///< from the scale to a rate, a number, a number
  double back_effect(double value) const;  ///< to a ratio of odds, a ratio, a difference
};

/// Two results of one seed: the score's and softmax's.
using ResultPair = std::pair<const CellResult*, const CellResult*>;

/// The metric's own, but plain for rates whose counts are not known in one of the results.
Measure measure_of(const std::string& metric, const std::vector<const CellResult*>& results);

/// NaN where the metric is missing or has no value on the scale.
double value_on_scale(const CellResult& result, const std::string& metric, Scale scale);

struct Effect {
  PairedTest test = {{0, 0, 0}, 0, 0};
  std::optional<double> sign_flip_p = {};
};

/// Of the mean over the metrics. The variance that counting leaves is taken as if the metrics were
/// one and the scores' errors unrelated: the largest it can be among positively related ones.
Effect effect_of(const std::vector<ResultPair>& pairs, const std::vector<std::string>& metrics,
                 Scale scale);

}  // namespace ssa
