// Decoders (Radford et al. 2019): positions, blocks, final norm.
#pragma once

#include <memory>
#include <optional>

#include "model/block_model.h"

namespace ssa {

/// What decoders share, whatever they read and predict. Parameter names are those of Hugging Face's
/// GPT2Model.
class Decoder : public BlockModel {
 public:
  /// GPT-2's initialisation: N(0, init_std²) for every matrix, embedding and the positions, those
  /// that write to the residual stream (c_proj) divided by √(2·layers), biases 0. Without residual
  /// connections nothing accumulates and c_proj is not scaled down.
  virtual void initialize_weights(std::uint64_t seed);

 protected:
  using BlockModel::BlockModel;

  /// Registers positions, blocks and final norm: all weights zero, norms as they start.
  void add_decoder();
  /// embedded: (all tokens, width) -> the same after the final norm. `places` of the tokens in
  /// their sequences, int64 (all tokens), on the same device; undefined: all rows of the batch
  /// begin at 0.
  torch::Tensor decoded(const torch::Tensor& embedded, SequenceContext context,
                        const torch::Tensor& places = {});

 private:
  torch::Tensor positions_;       ///< wpe.weight (max_positions, width); undefined unless learned
  std::optional<Rotary> rotary_;  ///< with positions = "rope"
  std::shared_ptr<Norm> ln_f_;    ///< null without norms, or where they stand after
};

}  // namespace ssa
