// The one place where the arguments of attention are checked.
#pragma once

#include "ssa/attention.h"

namespace ssa {

/// Throws std::invalid_argument as attention.h says; returns the description of args.score.
template <class T>
const ScoreInfo& check_args(const AttentionArgs<T>& args);

/// Throws std::invalid_argument where data is null though it has elements: "attention: out has no
/// data". `what` names the function's argument.
void check_given(const char* what, const void* data, std::int64_t elements);

/// The same of the forward pass's results, which the backward pass reads, and of its gradient.
template <class T>
void check_results(const AttentionArgs<T>& args, const void* out, const void* lse);
template <class T>
void check_backward_inputs(const AttentionArgs<T>& args, const void* out, const void* lse,
                           const void* d_out);

}  // namespace ssa
