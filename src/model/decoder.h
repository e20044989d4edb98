// GPT-2 style decoder (Radford et al. 2019): positions, blocks, final norm, with what reads a
// sequence in and the predictions out.
#pragma once

#include <memory>
#include <optional>

#include "model/block_model.h"

namespace ssa {

/// The decoder over sequences of numbers (input = "scalar"): a linear layer reads each in, another
/// reads one out. Parameter names are those of Hugging Face's GPT2Model, and read_in, read_out.
class Decoder : public BlockModel {
 public:
  /// Weights zero, norms one: see initialize_weights.
  explicit Decoder(const ModelConfig& config);

  /// GPT-2's initialisation: N(0, init_std²) for every matrix and the positions, those that write
  /// to the residual stream (c_proj) divided by √(2·layers), biases 0. read_in and read_out start
  /// as PyTorch's Linear does, uniform in ±1/√inputs, weight and bias: with 0.02 a number would
  /// enter the residual stream fifty times weaker. Without residual connections nothing accumulates
  /// and c_proj is not scaled down.
  void initialize_weights(std::uint64_t seed);

  /// (batch, tokens, 1) -> (batch, tokens, 1). Throws std::invalid_argument for another shape, more
  /// than max_positions tokens, packed sequences or wanted tokens.
  torch::Tensor forward(const ModelInput& input) override;
  /// Null: Hugging Face's GPT2Model reads no numbers.
  Json hugging_face_config() const override { return nullptr; }

 private:
  ModelConfig config_;
  std::shared_ptr<Linear> read_in_, read_out_;
  torch::Tensor positions_;  ///< wpe.weight (max_positions, width); undefined unless learned
  std::optional<RotaryTable> rotary_;  ///< with positions = "rope"
  torch::nn::LayerNorm ln_f_;          ///< empty without norms, or where they stand after
};

}  // namespace ssa
