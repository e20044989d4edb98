#include "tasks/language_task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "config/counted.h"
#include "files/data_file.h"
#include "files/file_hash.h"
#include "model/packed_tokens.h"
#include "shards/shards_record.h"
#include "ssa/check.h"
#include "tasks/passes.h"
#include "tasks/task_tokenizer.h"

namespace ssa {
namespace {

void check_language_config(const Config& config) {
  const auto& [model, task, train] = config;
  SSA_CHECK(
      model.input == InputKind::tokens && model.causal && model.norm_place == NormPlace::before,
      "task.name = \"lm\" needs a decoder of token ids (model.preset = \"nemotron-small\"), "
      "not model.preset = \""
          << model.preset << "\" with input \"" << name_of(model.input) << '"'
          << (model.causal ? "" : ", not causal"));
  SSA_CHECK(!task.tokens.empty(),
            "task.tokens is empty: a prefix that `ssa data tokenize` wrote is needed");
  SSA_CHECK(!task.validation_tokens.empty() || train.eval_batches == 0,
            "task.validation_tokens is empty: a prefix is needed, or train.eval_batches = 0 for no "
            "validation");
  SSA_CHECK(
      !task.tokenizer.empty(),
      "task.tokenizer is empty: the tokenizer of the tokens is needed, which ssa eval and ssa "
      "generate read texts with");
  SSA_CHECK(
      task.length <= model.max_positions,
      "task.length = " << task.length << " is above model.max_positions = " << model.max_positions);
}

/// Shards of other programs come without a record of their tokenizer.
void check_tokenizer(const std::filesystem::path& prefix, const std::string& tokenizer,
                     const TaskConfig& task) {
  const std::filesystem::path main = main_prefix(prefix);
  const Json record = read_shards_record(main);
  if (record.is_null() || record.at("recipe").at("tokenizer") == tokenizer) return;
  throw std::runtime_error(fmt::format("{}: its tokens are of {}, not of task.tokenizer = \"{}\"",
                                       record_path(main).string(),
                                       record.at("tokenizer").get<std::string>(), task.tokenizer));
}

}  // namespace

LanguageTask::LanguageTask(const Config& config) : config_(config.task), train_(config.train) {
  check_language_config(config);
  read_task_tokenizer(config);  // it fits the model
  data_["task.tokenizer"] = hash_tokenizer(config_);
  vocabulary_ = config.model.vocabulary;
  length_ = config_.length == 0 ? config.model.max_positions : config_.length;
  training_ = open(config_.tokens, "task.tokens");
  SSA_CHECK(train_.batch <= sequences(),
            "train.batch = " << train_.batch << ", but a pass over task.tokens has " << sequences()
                             << " sequences of " << length_ << " tokens");
  if (train_.eval_batches > 0) {
    validation_ = open(config_.validation_tokens, "task.validation_tokens");
  }
}

LanguageTask::Source LanguageTask::open(const std::vector<std::string>& names, const char* field) {
  std::vector<std::filesystem::path> indices;
  Source source{.names = names, .files = {}};
  for (const std::string& name : names) {
    // The prefix is no file: its index is.
    indices.push_back(find_data(name + ".idx", field));
    const std::filesystem::path prefix = indices.back().parent_path() / indices.back().stem();
    check_tokenizer(prefix, data_.at("task.tokenizer").get<std::string>(), config_);
    source.files.emplace_back(prefix);
    source.prefixes.push_back(prefix);
    const std::int64_t targets = std::max<std::int64_t>(source.files.back().tokens() - 1, 0);
    source.first_sequence.push_back(source.first_sequence.back() + targets / length_);
  }
  SSA_CHECK(source.first_sequence.back() > 0,
            field << ": " << fmt::format("{}", fmt::join(names, ", "))
                  << " has no sequence of task.length = " << length_ << " tokens");
  data_[field] = hash_files(indices);
  return source;
}

Batch LanguageTask::batch_of(const Source& source, const std::vector<std::int64_t>& numbers) const {
  PackedTokens packed;
  const bool apart = config_.documents == Documents::apart;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(length_) + 1);
  for (const std::int64_t number : numbers) {
    const auto after = std::ranges::upper_bound(source.first_sequence, number);
    const std::size_t file = after - source.first_sequence.begin() - 1;
    const TokenShards& shards = source.files[file];
    const std::int64_t begin = (number - source.first_sequence[file]) * length_;
    shards.copy(begin, ids);
    const std::int64_t largest = std::ranges::max(ids);
    if (largest >= vocabulary_) {
      throw std::runtime_error(
          fmt::format("{}: token id {} among tokens {} to {}, but model.vocabulary = {}",
                      source.names[file], largest, begin, begin + length_, vocabulary_));
    }
    // A document begins with the token that ended the one before it.
    std::vector<std::int64_t> starts;
    if (apart) starts = shards.document_starts({begin + 2, begin + length_ + 1});
    const auto place = static_cast<std::int64_t>(packed.tokens.size());
    for (const std::int64_t start : starts) packed.cu_lengths.push_back(place + start - 1 - begin);
    packed.tokens.insert(packed.tokens.end(), ids.begin(), ids.end() - 1);
    packed.targets.insert(packed.targets.end(), ids.begin() + 1, ids.end());
    packed.end_sequence();
  }
  ModelInput input = packed.input();
  input.wanted = torch::Tensor();  // all
  if (!apart) {
    input.tokens = input.tokens.view({-1, length_});
    input.cu_lengths = torch::Tensor();
  }
  return {input, packed.target_ids()};
}

Batch LanguageTask::training_batch(std::int64_t step, std::int64_t slice) const {
  std::vector<std::int64_t> numbers;
  const std::int64_t first = (step * train_.accumulation + slice) * train_.batch;
  for (std::int64_t i = first; i < first + train_.batch; ++i) {
    numbers.push_back(
        in_passes(i, sequences(), config_.order == TextOrder::shuffle, train_.seed).which);
  }
  return batch_of(training_, numbers);
}

Batch LanguageTask::validation_batch(std::int64_t index) const {
  const std::int64_t count = validation_.first_sequence.back();
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < std::min(train_.batch, count); ++i) {
    numbers.push_back((index * train_.batch + i) % count);
  }
  return batch_of(validation_, numbers);
}

std::map<std::string, double> LanguageTask::progress(std::int64_t step) const {
  const auto seen = static_cast<double>((step + 1) * train_.accumulation * train_.batch);
  return {{"pass", seen / static_cast<double>(sequences())}};
}

std::vector<std::string> LanguageTask::warnings() const {
  std::vector<std::string> out;
  for (std::size_t v = 0; v < validation_.files.size(); ++v) {
    for (std::size_t t = 0; t < training_.files.size(); ++t) {
      const std::string text = shared_text(training_.prefixes[t], validation_.prefixes[v]);
      std::string why;
      if (std::ranges::equal(training_.files[t].stored(), validation_.files[v].stored())) {
        why = "hold the same tokens";
      } else if (!text.empty()) {
        why = fmt::format("were both made from {}", text);
      } else {
        continue;
      }
      out.push_back(
          fmt::format("validation_tokens {} and tokens {} {}: the validation loss is of text that "
                      "is trained on",
                      validation_.names[v], training_.names[t], why));
    }
  }
  return out;
}

std::vector<std::string> LanguageTask::notes() const {
  std::vector<std::string> out;
  for (const Source* source : {&training_, &validation_}) {
    for (std::size_t i = 0; i < source->files.size(); ++i) {
      out.push_back(fmt::format("{}: {}, {}", source->names[i],
                                counted(source->files[i].documents(), "document"),
                                counted(source->files[i].tokens(), "token")));
    }
  }
  const std::int64_t batch = train_.batch * train_.accumulation;
  out.push_back(fmt::format("one pass: {} of {}, {} of {}; documents {}",
                            counted(sequences(), "sequence"), counted(length_, "token"),
                            counted((sequences() + batch - 1) / batch, "step"), batch,
                            name_of(config_.documents)));
  return out;
}

}  // namespace ssa
