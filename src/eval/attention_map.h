// Where a model looks while it reads one sequence.
#pragma once

#include "model/model.h"
#include "tasks/icl.h"

namespace ssa {

/// {"predictions": [one per x], "score_parameters": […],
///  "weights": [layer][head][query][key]} of one sequence, as docs/formats.md has it: a query's
/// row holds the keys that it may see, tokens 0 … query. Throws std::runtime_error naming the first
/// layer whose weights are not finite.
Json attention_map(Model& model, const IclSequences& sequence);

}  // namespace ssa
