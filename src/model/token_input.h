// What models of token ids check of their input.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "model/model.h"

namespace ssa {

/// The index of the first true element: "[3]", "[2, 5]".
std::vector<std::int64_t> first_true(const torch::Tensor& where);

/// Throws std::invalid_argument naming the first value of `what` outside 0 … `end` − 1, its place
/// and the `bound`. Values on other devices than the CPU are not looked at.
void check_range(const char* what, const torch::Tensor& values, std::int64_t end,
                 const char* bound);

/// Throws std::invalid_argument naming what is wrong unless `ids` and `cu_lengths` are packed
/// sequences.
void check_packed(const torch::Tensor& ids, const torch::Tensor& cu_lengths);

/// Throws std::invalid_argument if a sequence is longer than the model's max_positions.
void check_longest(const torch::Tensor& lengths, std::int64_t max_positions);

/// Places of packed tokens within their sequences, from 0: int64 (tokens).
torch::Tensor places_of_packed(const torch::Tensor& cu_lengths);

/// The rows of `hidden` (all tokens, width) that input.wanted asks for, or all. Throws
/// std::invalid_argument for wanted tokens that there are not.
torch::Tensor wanted_rows(const torch::Tensor& hidden, const ModelInput& input);

}  // namespace ssa
