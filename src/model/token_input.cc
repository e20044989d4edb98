#include "model/token_input.h"

#include <torch/types.h>

#include "model/device.h"
#include "ssa/check.h"

namespace ssa {

std::vector<std::int64_t> first_true(const torch::Tensor& where) {
  const torch::Tensor index = where.nonzero()[0].contiguous();
  return {index.const_data_ptr<std::int64_t>(),
          index.const_data_ptr<std::int64_t>() + index.numel()};
}

void check_range(const char* what, const torch::Tensor& values, std::int64_t end,
                 const char* bound) {
  if (!values.is_cpu()) return;  // to ask would be to wait for the device
  const torch::Tensor outside = (values < 0) | (values >= end);
  if (!outside.any().item<bool>()) return;
  SSA_CHECK(false, "model: " << what << ' ' << values.masked_select(outside)[0].item<std::int64_t>()
                             << " at " << torch::IntArrayRef(first_true(outside)) << ", but "
                             << bound << " = " << end);
}

void check_packed(const torch::Tensor& ids, const torch::Tensor& cu_lengths) {
  SSA_CHECK(ids.dim() == 1, "model: packed token ids of shape (tokens) expected, not "
                                << ids.sizes() << " (with cu_lengths)");
  SSA_CHECK(
      cu_lengths.dim() == 1 && cu_lengths.size(0) >= 1 && cu_lengths.scalar_type() == torch::kLong,
      "model: cu_lengths must be int64 of shape (sequences + 1), not "
          << cu_lengths.scalar_type() << " of shape " << cu_lengths.sizes());
  const bool falls = (cu_lengths.diff() < 0).any().item<bool>();
  const std::int64_t first = cu_lengths[0].item<std::int64_t>();
  const std::int64_t last = cu_lengths[-1].item<std::int64_t>();
  SSA_CHECK(first == 0 && last == ids.size(0) && !falls,
            "model: cu_lengths must rise from 0 to the number of tokens, "
                << ids.size(0) << ", but go from " << first << " to " << last
                << (first == 0 && last == ids.size(0) ? " and fall in between" : ""));
}

void check_longest(const torch::Tensor& lengths, std::int64_t max_positions) {
  const std::int64_t longest = lengths.numel() == 0 ? 0 : lengths.max().item<std::int64_t>();
  SSA_CHECK(
      longest <= max_positions,
      "model: a sequence of " << longest << " tokens, but model.max_positions = " << max_positions);
}

torch::Tensor places_of_packed(const torch::Tensor& cu_lengths) {
  const torch::Tensor starts =
      torch::repeat_interleave(cu_lengths.slice(0, 0, -1), cu_lengths.diff());
  return torch::arange(starts.size(0), cu_lengths.options()) - starts;
}

torch::Tensor wanted_rows(const torch::Tensor& hidden, const ModelInput& input) {
  if (!input.wanted.defined()) return hidden;
  SSA_CHECK(input.wanted.dim() == 1 && input.wanted.scalar_type() == torch::kLong,
            "model: wanted must be int64 of one dimension, not "
                << input.wanted.scalar_type() << " of shape " << input.wanted.sizes());
  check_range("wanted token", input.wanted, hidden.size(0), "the number of tokens");
  return hidden.index_select(0, on_device(input.wanted, hidden.device()));
}

}  // namespace ssa
