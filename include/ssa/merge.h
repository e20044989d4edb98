// Attention over many keys from results over some of them: split keys, ring attention.
#pragma once

#include <span>

#include "ssa/attention.h"

namespace ssa {

/// The result over some of a problem's keys: out and lse as attention_forward gave them.
template <class T>
struct AttentionPart {
  View4<const T> out;
  const ScoreType<T>* lse;
};

/// Results over disjoint sets of keys become the result over all of them, for T float, BFloat16 and
/// double:
///   lse = log Σ_k exp lse_k,   out = Σ_k exp(lse_k − lse)·out_k
/// `problem` is what the parts have in common: score, params, batch, query_heads, query_length and
/// v_dim. A sink stands in every part's normaliser but in no lse; with e^z its term, the weights
/// are then (exp lse_k + e^z) / (exp lse + e^z), so that it counts once. A part whose lse is −inf
/// saw no key: its out is not read. A score that counts keys (ssmax) must have counted all of them
/// for each part.
template <class T>
void merge(const AttentionProblem<ScoreType<T>>& problem, std::span<const AttentionPart<T>> parts,
           const View4<T>& out, ScoreType<T>* lse, const Parallel& parallel);

}  // namespace ssa
