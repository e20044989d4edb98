// One in-context sequence as a user writes it down.
#pragma once

#include <string>

#include "tasks/icl.h"

namespace ssa {

/// The one sequence that `text` spells. Either numbers x_1, x_2, …, where y follows from the
/// task's rule (linear functions have none: their y must be given), or pairs x_i:y_i, where y is
/// what the user says. Separated by commas or white space ("1.5,-0.3,100", "1:2.5 2:4.5"), or JSON
/// ([1.5, -0.3, 100], [[1, 2.5], [2, 4.5]]).
///
/// Throws std::invalid_argument beginning with `origin` and naming the first value that is neither
/// a finite float nor a pair of them, an empty text, numbers beside pairs, and y that is missing.
IclSequences icl_prompt(IclTask task, const std::string& text, const std::string& origin);

}  // namespace ssa
