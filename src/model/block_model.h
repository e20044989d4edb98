// What all models of blocks share, whatever they read and predict.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/block.h"

namespace ssa {

class BlockModel : public Model {
 public:
  using Model::Model;

  void record_attention(bool on) override;
  const std::vector<AttentionRecord>& attention_records() const override { return records_; }
  void recompute_blocks(bool on) override { recompute_ = on; }
  std::vector<std::vector<ScoreParameterValues>> score_parameters() const override;
  void set_score_parameters(const std::vector<double>& values) override;
  void set_score_parameters(std::size_t layer,
                            const std::vector<std::vector<double>>& values) override;
  /// Every parameter, then every buffer (fixed parameters of the score), under the names of the
  /// model's family (model/hugging_face).
  std::vector<std::pair<std::string, torch::Tensor>> named_weights() const override;
  /// Matrices: norms, biases and the score's parameters are vectors.
  bool decays(const std::string& parameter_name) const override;
  std::vector<std::int64_t> matrix_columns(const std::string& parameter_name) const override;
  bool is_score_parameter(const std::string& parameter_name) const override {
    return parameter_name.find(".attn.score_") != parameter_name.npos;
  }

 protected:
  /// Registers config().layers blocks as "h".
  void add_blocks();
  /// The hidden states after the last block; records what context.records is for, if asked to.
  torch::Tensor through_blocks(torch::Tensor hidden, SequenceContext context);

 private:
  torch::Tensor parameter_named(const std::string& name) const;

  std::vector<std::shared_ptr<Block>> blocks_;
  bool recording_ = false, recompute_ = false;
  std::vector<AttentionRecord> records_;
};

}  // namespace ssa
