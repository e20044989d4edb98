// The one place where the arguments of attention are checked.
#pragma once

#include "ssa/attention.h"

namespace ssa {

/// Throws std::invalid_argument as attention.h says; returns the description of args.score.
template <class T>
const ScoreInfo& check_args(const AttentionArgs<T>& args);

}  // namespace ssa
