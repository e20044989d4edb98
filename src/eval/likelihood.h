// Log-likelihoods of texts given what stands before them: what evaluations of language models ask.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace ssa {

struct LikelihoodRequest {
  std::vector<TokenId> context;       ///< at least one token
  std::vector<TokenId> continuation;  ///< what is scored
};

struct Likelihood {
  double log_probability = 0;         ///< nats, Σ over the continuation
  bool greedy = false;                ///< whether each of its tokens is the likeliest of its place
  std::vector<float> of_tokens = {};  ///< nats, log p of each token of the continuation
};

/// One for each request, in their order. Several are packed into a forward pass; `report` hears how
/// many are done. A request of more than max_positions + 1 tokens loses the beginning of its
/// context, as in EleutherAI's lm-evaluation-harness. A continuation of more than max_positions
/// tokens, which the harness refuses, is scored in windows of that many, each after the one token
/// before it, as the harness scores whole texts. Throws std::runtime_error for a result that is
/// not finite.
std::vector<Likelihood> log_likelihoods(
    Model& model, std::int64_t max_positions, const std::vector<LikelihoodRequest>& requests,
    const std::function<void(std::int64_t done, std::int64_t all)>& report = {});

}  // namespace ssa
