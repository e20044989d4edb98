#include "tasks/masked_language_task.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>

#include "config/counted.h"
#include "files/data_file.h"
#include "files/file_hash.h"
#include "model/device.h"
#include "ssa/check.h"
#include "tasks/passes.h"
#include "tasks/task_tokenizer.h"

namespace ssa {
namespace {

std::vector<std::filesystem::path> find_files(const std::vector<std::string>& names,
                                              const char* field) {
  std::vector<std::filesystem::path> files;
  for (const std::string& name : names) files.push_back(find_data(name, field));
  return files;
}

/// A warning for every file of one list whose content is a file's of the other.
std::vector<std::string> shared_files(const std::vector<std::filesystem::path>& training,
                                      const std::vector<std::filesystem::path>& validation) {
  std::vector<std::string> out;
  for (const auto& file : validation) {
    for (const auto& other : training) {
      if (std::filesystem::file_size(file) != std::filesystem::file_size(other) ||
          hash_contents({file}) != hash_contents({other})) {
        continue;
      }
      out.push_back(fmt::format(
          "validation_text {} has the content of text {}: the validation loss is of text "
          "that is trained on",
          file.string(), other.string()));
    }
  }
  return out;
}

Corpus read_text(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                 const CorpusOptions& options) {
  return files.empty() ? Corpus() : Corpus::read(files, tokenizer, options);
}

void check_masked_config(const Config& config) {
  const auto& [model, task, train] = config;
  SSA_CHECK(model.input == InputKind::tokens && !model.causal,
            "task.name = \"mlm\" needs a model that reads token ids in both directions "
            "(model.preset = \"babyberta\"), not model.preset = \""
                << model.preset << "\" with input \"" << name_of(model.input) << '"'
                << (model.causal ? ", causal" : ""));
  SSA_CHECK(!task.tokenizer.empty(), "task.tokenizer is empty: a tokenizer.json is needed");
  SSA_CHECK(!task.text.empty(), "task.text is empty: at least one file of sentences is needed");
  SSA_CHECK(!task.validation_text.empty() || train.eval_batches == 0,
            "task.validation_text is empty: a file of sentences is needed, or train.eval_batches = "
            "0 for no validation");
}

std::unique_ptr<const Tokenizer> read_checked_tokenizer(const Config& config) {
  check_masked_config(config);
  const auto file = find_data(config.task.tokenizer, "task.tokenizer");
  SSA_CHECK(
      !is_sentence_piece(file),
      file.string() << ": a masked language model needs a tokenizer.json (with <mask>), not a "
                       "model of SentencePiece");
  auto tokenizer = read_tokenizer(file);
  SSA_CHECK(tokenizer->size() <= config.model.vocabulary,
            file.string() << ": has ids up to " << tokenizer->size() - 1
                          << ", but model.vocabulary = " << config.model.vocabulary);
  const auto pad = tokenizer->find("<pad>");
  SSA_CHECK(
      !pad || *pad == config.model.pad_id,
      file.string() << ": <pad> is " << *pad << ", but model.pad_id = " << config.model.pad_id);
  const auto mask = tokenizer->find("<mask>");
  SSA_CHECK(!mask || *mask != config.model.pad_id,
            file.string() << ": <mask> is " << *mask << ", and so is model.pad_id");
  return tokenizer;
}

}  // namespace

MaskedLanguageTask::MaskedLanguageTask(const Config& config)
    : config_(config.task),
      train_(config.train),
      recipe_(masking_recipe(config.task.masking)),
      reading_{.least_words = config.task.least_words,
               .most_tokens = config.model.max_positions,
               .padding = static_cast<TokenId>(config.model.pad_id),
               .skip_bad_lines = config.task.skip_bad_lines},
      tokenizer_(read_checked_tokenizer(config)),
      training_masks_(recipe_, config_.mask_probability, *tokenizer_,
                      static_cast<std::uint64_t>(train_.seed), RandomStream::training),
      validation_masks_(recipe_, config_.mask_probability, *tokenizer_,
                        static_cast<std::uint64_t>(train_.seed), RandomStream::validation),
      text_(read_text(find_files(config_.text, "task.text"), *tokenizer_, reading_)),
      validation_(read_text(find_files(config_.validation_text, "task.validation_text"),
                            *tokenizer_, reading_)) {
  data_ = {{"task.tokenizer", hash_tokenizer(config_)},
           {"task.text", hash_files(find_files(config_.text, "task.text"))},
           {"task.validation_text",
            hash_files(find_files(config_.validation_text, "task.validation_text"))}};
  warnings_ = shared_files(find_files(config_.text, "task.text"),
                           find_files(config_.validation_text, "task.validation_text"));
  first_view_.reserve(static_cast<std::size_t>(text_.size()) + 1);
  for (std::int64_t s = 0; s < text_.size(); ++s) {
    const std::int64_t maskable = training_masks_.maskable(text_[s]);
    const std::int64_t views = recipe_.most_patterns == 0 ? std::min<std::int64_t>(maskable, 1)
                                                          : recipe_.patterns(maskable);
    first_view_.push_back(first_view_.back() + views);
  }
  SSA_CHECK(views() > 0, "task.text: every token is a special one, so there is nothing to mask");
  for (std::int64_t s = 0; s < validation_.size(); ++s) {
    if (validation_masks_.maskable(validation_[s]) > 0) validated_.push_back(s);
  }
  SSA_CHECK(!validated_.empty() || train_.eval_batches == 0,
            "task.validation_text: every token is a special one, so there is nothing to mask");
}

MaskedLanguageTask::View MaskedLanguageTask::training_view(std::int64_t number) const {
  const auto [pass, place] =
      in_passes(number, views(), config_.order == TextOrder::shuffle, train_.seed);
  const auto after = std::ranges::upper_bound(first_view_, place);
  const std::int64_t sentence = after - first_view_.begin() - 1;
  const std::int64_t pattern = place - first_view_[sentence];
  return {sentence, recipe_.most_patterns == 0 ? pass : pattern};
}

Batch MaskedLanguageTask::training_batch(std::int64_t step, std::int64_t slice) const {
  PackedTokens packed;
  const std::int64_t first = (step * train_.accumulation + slice) * train_.batch;
  for (std::int64_t i = first; i < first + train_.batch; ++i) {
    const View view = training_view(i);
    training_masks_.append(text_[view.sentence], view.sentence, view.pattern, packed);
  }
  return {packed.input(), packed.target_ids()};
}

/// Batches beyond the text's end begin anew at its start.
Batch MaskedLanguageTask::validation_batch(std::int64_t index) const {
  PackedTokens packed;
  const auto count = static_cast<std::int64_t>(validated_.size());
  for (std::int64_t i = 0; i < std::min(train_.batch, count); ++i) {
    const std::int64_t sentence = validated_[(index * train_.batch + i) % count];
    validation_masks_.append(validation_[sentence], sentence, 0, packed);
  }
  return {packed.input(), packed.target_ids()};
}

torch::Tensor MaskedLanguageTask::loss(const torch::Tensor& output, const Batch& batch) const {
  if (batch.targets.numel() == 0) return output.sum();  // nothing chosen: 0, with a gradient of 0
  return torch::cross_entropy_loss(output, on_device(batch.targets, output.device()));
}

std::map<std::string, double> MaskedLanguageTask::metrics(const torch::Tensor& output,
                                                          const Batch& batch) const {
  if (batch.targets.numel() == 0) return {{"wrong", 0.0}};
  const torch::Tensor wrong = output.argmax(1) != on_device(batch.targets, output.device());
  return {{"wrong", wrong.to(torch::kDouble).mean().item<double>()}};
}

std::map<std::string, double> MaskedLanguageTask::progress(std::int64_t step) const {
  const auto seen = static_cast<double>((step + 1) * train_.accumulation * train_.batch);
  return {{"pass", seen / static_cast<double>(views())}};
}

std::vector<std::string> MaskedLanguageTask::notes() const {
  std::vector<std::string> out;
  for (const Corpus* corpus : {&text_, &validation_}) {
    for (const CorpusReport& report : corpus->reports()) out.push_back(report.text(reading_));
  }
  const std::int64_t batch = train_.batch * train_.accumulation;
  out.push_back(fmt::format("one pass: {} of {}, {} of {}; {} masking", counted(views(), "view"),
                            counted(text_.size(), "sentence"),
                            counted((views() + batch - 1) / batch, "step"), batch,
                            name_of(config_.masking)));
  return out;
}

}  // namespace ssa
