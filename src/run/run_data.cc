#include "run/run_data.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "files/data_file.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

bool is_found(const std::string& name) {
  try {
    find_data(name, "");
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

/// `ending`: what the path lacks of a file's name (a prefix of tokens: ".idx").
void find_nearby(std::string& name, const fs::path& run_folder, const std::string& ending) {
  if (name.empty() || is_found(name + ending)) return;
  const fs::path path = name;
  for (fs::path folder = fs::absolute(run_folder).lexically_normal();;
       folder = folder.parent_path()) {
    for (const fs::path& place : {folder / path, folder / path.filename()}) {
      if (!fs::exists(place.string() + ending)) continue;
      name = place.string();
      return;
    }
    if (folder == folder.parent_path()) return;
  }
}

}  // namespace

Config with_found_data(Config config, const fs::path& run_folder) {
  TaskConfig& task = config.task;
  for (std::string* name : {&task.tokenizer, &task.merges}) find_nearby(*name, run_folder, "");
  for (auto* names : {&task.text, &task.validation_text}) {
    for (std::string& name : *names) find_nearby(name, run_folder, "");
  }
  for (auto* names : {&task.tokens, &task.validation_tokens}) {
    for (std::string& name : *names) find_nearby(name, run_folder, ".idx");
  }
  return config;
}

}  // namespace ssa
