// The tokenizer that a run names.
#pragma once

#include <memory>
#include <string>

#include "config/config.h"
#include "tokenizer/tokenizer.h"

namespace ssa {

/// That of task.tokenizer (and task.merges). Throws std::runtime_error for a file that cannot be
/// read, std::invalid_argument if none is named or it has more ids than the model.
std::unique_ptr<Tokenizer> read_task_tokenizer(const Config& config);

/// hash_tokenizer of the same.
std::string hash_tokenizer(const TaskConfig& task);

}  // namespace ssa
