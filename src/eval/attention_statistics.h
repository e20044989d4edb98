// How concentrated attention is, and how much of it one token gets.
#pragma once

#include <optional>
#include <vector>

#include "model/model.h"

namespace ssa {

/// Means over sequences and queries.
struct HeadStatistics {
  std::int64_t layer = 0, head = 0;
  std::optional<double> mass;  ///< weight of the token asked for, over the queries at and after it
  double entropy = 0;          ///< −Σ p·log p, nats
  double p_max = 0;            ///< largest weight
};

/// One entry per layer and head of the records of a forward pass.
std::vector<HeadStatistics> attention_statistics(const std::vector<AttentionRecord>& layers,
                                                 std::optional<std::int64_t> token = {});

}  // namespace ssa
