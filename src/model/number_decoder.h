// The decoder over sequences of numbers, of the in-context tasks.
#pragma once

#include <memory>

#include "model/decoder.h"

namespace ssa {

/// (input = "scalar"): a linear layer reads each number in, another reads one out: read_in,
/// read_out.
class NumberDecoder : public Decoder {
 public:
  explicit NumberDecoder(const ModelConfig& config);

  /// read_in and read_out start as PyTorch's Linear does, uniform in ±1/√inputs, weight and bias:
  /// with 0.02 a number would enter the residual stream fifty times weaker.
  void initialize_weights(std::uint64_t seed) override;
  /// Reads (batch, tokens, 1). Throws std::invalid_argument for another shape, more than
  /// max_positions tokens, or anything but tokens.
  torch::Tensor hidden(const ModelInput& input) override;
  torch::Tensor logits(const torch::Tensor& hidden) override;
  /// Throws std::invalid_argument: numbers have no vocabulary.
  torch::Tensor losses(const torch::Tensor& hidden, const torch::Tensor& targets) override;

 private:
  std::shared_ptr<Linear> read_in_, read_out_;
};

}  // namespace ssa
