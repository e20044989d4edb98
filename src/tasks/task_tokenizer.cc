#include "tasks/task_tokenizer.h"

#include <filesystem>

#include "files/data_file.h"
#include "ssa/check.h"

namespace ssa {
namespace {

struct Files {
  std::filesystem::path tokenizer, merges;
};

Files find_files(const TaskConfig& task) {
  SSA_CHECK(!task.tokenizer.empty(), "task.tokenizer is empty: a tokenizer is needed");
  return {find_data(task.tokenizer, "task.tokenizer"),
          task.merges.empty() ? "" : find_data(task.merges, "task.merges")};
}

}  // namespace

std::unique_ptr<TextEncoder> read_encoder(const Config& config) {
  const auto [tokenizer, merges] = find_files(config.task);
  auto encoder = read_text_encoder(tokenizer, merges);
  SSA_CHECK(encoder->size() <= config.model.vocabulary,
            tokenizer.string() << ": has ids up to " << encoder->size() - 1
                               << ", but model.vocabulary = " << config.model.vocabulary);
  return encoder;
}

std::string hash_tokenizer(const TaskConfig& task) {
  const auto [tokenizer, merges] = find_files(task);
  return hash_text_encoder(tokenizer, merges);
}

}  // namespace ssa
