// Masked language modelling: sentences of a text, some of their tokens hidden, to be guessed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tasks/masking.h"
#include "tasks/task.h"
#include "text/corpus.h"

namespace ssa {

/// Sentences are packed one after another, so nothing is computed for padding, and the model's
/// output is asked for at the chosen tokens only. The loss is the mean cross-entropy over them.
///
/// A pass over the text has every view of every sentence (a sentence and one of its patterns of
/// masks) once, in the text's order or shuffled anew in each pass; batches take what comes next. In
/// validation each sentence has one view, the same each time.
class MaskedLanguageTask : public Task {
 public:
  /// Reads the text. Throws std::invalid_argument for a model that does not fit the task or the
  /// tokenizer, std::runtime_error for files that cannot be read.
  explicit MaskedLanguageTask(const Config& config);
  MaskedLanguageTask(const MaskedLanguageTask&) = delete;  // the masks refer to the tokenizer
  MaskedLanguageTask& operator=(const MaskedLanguageTask&) = delete;

  Batch training_batch(std::int64_t step, std::int64_t slice) const override;
  Batch validation_batch(std::int64_t index) const override;
  torch::Tensor loss(const torch::Tensor& output, const Batch& batch) const override;
  /// {"wrong": share of chosen tokens that are not the likeliest of their place}
  std::map<std::string, double> metrics(const torch::Tensor& output,
                                        const Batch& batch) const override;
  /// {"pass": passes over the text so far}
  std::map<std::string, double> progress(std::int64_t step) const override;
  Json data() const override { return data_; }
  std::vector<std::string> notes() const override;

  /// Views of one pass.
  std::int64_t views() const { return first_view_.back(); }

 private:
  struct View {
    std::int64_t sentence, pattern;
  };
  View training_view(std::int64_t number) const;

  TaskConfig config_;
  TrainConfig train_;
  MaskingRecipe recipe_;
  CorpusOptions reading_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  Masker training_masks_, validation_masks_;
  Corpus text_, validation_;
  std::vector<std::int64_t> first_view_ = {0};  ///< of each sentence, and the number of all
  Json data_;
  std::vector<std::int64_t> validated_;  ///< sentences that have something to guess
};

}  // namespace ssa
