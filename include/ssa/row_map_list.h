// Scoring functions outside the φ family, as data: weights that need a whole row of scores at once,
// and linear attention. Their mathematics, on tensors, stands in src/op/row_maps.cc and
// src/op/cosformer.cc; names and parameters stand here, without torch, for configs and command
// line.
#pragma once

#include <array>

#include "ssa/score_info.h"

namespace ssa {

inline constexpr std::array<ParamInfo, 1> kEntmaxParams{
    {{"alpha", 1.5, 1.0, true, "1 is softmax, 2 is sparsemax, > 1", 1.0}}};
inline constexpr std::array<ParamInfo, 1> kSigmoidParams{
    {{"beta", 0.0, kAnyNumber, true, "offset of every score beside -log(N)", kAnyNumber}}};
inline constexpr std::array<ParamInfo, 1> kCosformerParams{
    {{"M", 1024.0, 0.0, false,
      "length at which the cosine reaches 0, at least the length of queries and keys"}}};

/// In the order in which they are listed to users.
inline constexpr std::array<ScoreInfo, 7> kRowMapList{{
    {.name = "sparsemax",
     .formula = "max(s - tau, 0)",
     .sink = "",
     .help = "projection onto the simplex: exact zeros; tau makes the sum 1",
     .params = {},
     .golden = {},
     .family = ScoreFamily::kRowMap},
    {.name = "entmax15",
     .formula = "max(s/2 - tau, 0)^2",
     .sink = "",
     .help = "halfway between softmax and sparsemax; tau makes the sum 1",
     .params = {},
     .golden = {},
     .family = ScoreFamily::kRowMap},
    {.name = "entmax",
     .formula = "max((alpha - 1)·s - tau, 0)^(1/(alpha - 1))",
     .sink = "",
     .help = "entmax with a trained alpha; tau makes the sum 1",
     .params = kEntmaxParams,
     .golden = {},
     .family = ScoreFamily::kRowMap},
    {.name = "sa-softmax",
     .formula = "s·softmax(s)",
     .sink = "",
     .help = "self-adjusted softmax; weights may be negative",
     .params = {},
     .golden = {},
     .family = ScoreFamily::kRowMap},
    {.name = "sa-softmax-normalised",
     .formula = "(s - min(m, 0))/(max(x, 0) - min(m, 0))·softmax(s)",
     .sink = "",
     .help = "the same with s brought into [0, 1] by the row's least m and largest x",
     .params = {},
     .golden = {},
     .family = ScoreFamily::kRowMap},
    {.name = "sigmoid",
     .formula = "1/(1 + exp(-(s + beta - log(N))))",
     .sink = "",
     .help = "each key for itself, not normalised",
     .params = kSigmoidParams,
     .golden = {},
     .family = ScoreFamily::kRowMap},
    {.name = "cosformer",
     .formula = "relu(q)·relu(k)·cos(pi/2·(i - j)/M), normalised",
     .sink = "",
     .help = "linear in the length; no bias, no mask",
     .params = kCosformerParams,
     .golden = {},
     .family = ScoreFamily::kLinear},
}};

}  // namespace ssa
