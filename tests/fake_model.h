// What a model made for a test does not care about.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/model.h"

namespace ssa::test {

/// A model without layers, weights or attention; the test says what its forward pass gives.
class FakeModel : public Model {
 public:
  void record_attention(bool /*on*/) override {}
  const std::vector<AttentionRecord>& attention_records() const override { return records_; }
  std::vector<std::vector<ScoreParameterValues>> score_parameters() const override { return {}; }
  std::vector<std::pair<std::string, torch::Tensor>> named_weights() const override { return {}; }
  torch::Tensor hidden(const ModelInput& input) override { return input.tokens; }
  torch::Tensor logits(const torch::Tensor& hidden) override { return hidden; }
  bool decays(const std::string& /*parameter_name*/) const override { return false; }

 protected:
  std::vector<AttentionRecord> records_;
};

}  // namespace ssa::test
