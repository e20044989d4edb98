// Language modelling: the next token of a text, from those before it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "shards/token_shards.h"
#include "tasks/task.h"

namespace ssa {

/// The tokens on disk, cut into sequences of `length` with the token after each as its last target,
/// so that every token but the first of a file is a target once in a pass. What is left at a file's
/// end is too short and is left out.
///
/// With documents = "apart" a sequence is packed from its documents' parts, whose positions start
/// from 0: each document begins with the token that ended the one before it, so that its first word
/// is learned too; with "across" it is one piece.
///
/// The output is the cross-entropy of each target; the loss is their mean.
class LanguageTask : public Task {
 public:
  /// Opens the files. Throws std::invalid_argument for a model that does not fit the task,
  /// std::runtime_error for files that cannot be read or were made by another tokenizer.
  explicit LanguageTask(const Config& config);

  Batch training_batch(std::int64_t step, std::int64_t slice) const override;
  /// Batches beyond the end begin anew at the start.
  Batch validation_batch(std::int64_t index) const override;
  torch::Tensor output(Model& model, const Batch& batch) const override {
    return model.losses(model.hidden(batch.inputs), batch.targets);
  }
  torch::Tensor loss(const torch::Tensor& output, const Batch&) const override {
    return output.mean();
  }
  /// None: the loss says it all.
  std::map<std::string, double> metrics(const torch::Tensor&, const Batch&) const override {
    return {};
  }
  /// {"pass": passes over the tokens so far}
  std::map<std::string, double> progress(std::int64_t step) const override;
  /// Of the tokens the index alone, which knows the length of every document.
  Json data() const override { return data_; }
  std::vector<std::string> warnings() const override;
  std::vector<std::string> notes() const override;

  /// Sequences of one pass.
  std::int64_t sequences() const { return training_.first_sequence.back(); }

 private:
  struct Source {
    std::vector<std::string> names;  ///< as the config has them
    std::vector<std::filesystem::path> prefixes = {};
    std::vector<TokenShards> files;
    std::vector<std::int64_t> first_sequence = {0};  ///< of each file, and the number of all
  };

  Source open(const std::vector<std::string>& names, const char* field);
  Batch batch_of(const Source& source, const std::vector<std::int64_t>& numbers) const;

  TaskConfig config_;
  TrainConfig train_;
  std::int64_t vocabulary_ = 0;
  std::int64_t length_;
  Source training_, validation_;
  Json data_ = Json::object();
};

}  // namespace ssa
