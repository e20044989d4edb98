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

std::unique_ptr<Tokenizer> read_task_tokenizer(const Config& config) {
  const auto [file, merges] = find_files(config.task);
  auto tokenizer = read_tokenizer(file, merges);
  SSA_CHECK(tokenizer->size() <= config.model.vocabulary,
            file.string() << ": has ids up to " << tokenizer->size() - 1
                          << ", but model.vocabulary = " << config.model.vocabulary);
  return tokenizer;
}

std::string hash_tokenizer(const TaskConfig& task) {
  const auto [tokenizer, merges] = find_files(task);
  return hash_tokenizer(tokenizer, merges);
}

}  // namespace ssa
