// The evaluation suite icl-shift: a model trained on N(0,1) and 40 points, asked beyond them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/field.h"
#include "eval/attention_statistics.h"
#include "eval/options.h"
#include "model/model.h"
#include "tasks/icl.h"
#include "tasks/icl_errors.h"

namespace ssa {

/// The values a shift takes, in order.
struct IclSweep {
  std::vector<std::int64_t> lengths;  ///< points
  std::vector<double> sigmas;         ///< of the inputs
  std::vector<double> coefficients;   ///< σ of a, b; with σ of the inputs for `grid` and `both`
  std::vector<double> huge;           ///< planted values
};

/// The grid's values for that task (reduced: a few; full: every value of the paper), with the lists
/// of the options in their place. Throws std::invalid_argument for coefficients of another task
/// than `linear`.
IclSweep icl_sweep(IclTask task, const IclShiftOptions& options);

/// Attention weights take O(tokens²) memory: they are looked at on the first sequences only.
inline constexpr std::int64_t kAttentionSequences = 64;

/// One setting of one shift.
struct IclShift {
  std::string name;           ///< "none", "length", …
  std::vector<double> value;  ///< empty for none, two for grid
  IclSpec spec;
};

/// Every setting, in the order of the results. Throws std::invalid_argument naming the option and
/// what would be right.
std::vector<IclShift> icl_shifts(IclTask task, const IclShiftOptions& options);

struct PredictorFigures {
  std::string predictor;  ///< "model" first, then the baselines
  std::vector<Figure> figures;
};

struct IclShiftResult {
  IclShift shift;
  std::string skipped;  ///< why nothing was measured; empty if it was
  std::vector<PredictorFigures> predictors;
  std::vector<HeadStatistics> attention;  ///< of none, sigma and huge
};

/// Runs the model, in evaluation mode and without gradients, on every shift whose sequences it can
/// read (2·points tokens each, at most max_positions); `report` sees each result when it is there.
/// The sequences depend on task and options alone. Throws std::runtime_error if not even the
/// unshifted sequences fit.
std::vector<IclShiftResult> evaluate_icl_shifts(
    Model& model, std::int64_t max_positions, IclTask task, const IclShiftOptions& options,
    const std::function<void(const IclShiftResult&)>& report = {});

/// The fields of docs/formats.md but task, score and step.
Json to_json(IclTask task, const IclShiftOptions& options,
             const std::vector<IclShiftResult>& results);

}  // namespace ssa
