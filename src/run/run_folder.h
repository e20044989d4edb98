// The run folder (docs/formats.md): the only thing that passes between commands.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/model.h"

namespace ssa {

struct Run {
  std::filesystem::path folder;
  std::string name;
  Config config;
  Json record;  ///< run.json as it stands
};

/// Whether the folder holds a run (a run.json).
bool holds_run(const std::filesystem::path& folder);

/// Makes the folder and writes run.json; `data` as Task::data says. Throws std::runtime_error if it
/// already holds a run or anything else.
Run create_run(const std::filesystem::path& folder, const std::string& name, const Config& config,
               std::int64_t parameters, int processes = 1, const Json& data = Json::object());

/// Throws std::runtime_error naming what of `data` is not what it was when the run began.
void require_same_data(const Run& run, const Json& data);

/// Reads run.json. Throws std::runtime_error naming the folder or file if there is none, its schema
/// is unknown or a field is wrong.
Run open_run(const std::filesystem::path& folder);

/// Writes run.json again with another config (a resumed run may get more steps).
void update_run(Run& run, const Config& config, int processes);

/// Steps of the checkpoints in the folder, ascending.
std::vector<std::int64_t> checkpoint_steps(const std::filesystem::path& run_folder);

/// checkpoints/step-N
std::filesystem::path checkpoint_folder(const std::filesystem::path& run_folder, std::int64_t step);

struct LoadedModel {
  std::shared_ptr<Model> model;
  std::int64_t step;  ///< of the checkpoint
};

/// The model of the run with the weights of that checkpoint, the newest by default, in evaluation
/// mode. Throws std::runtime_error naming the folder or file if there is no such checkpoint or it
/// is broken.
LoadedModel load_model(const Run& run, std::optional<std::int64_t> step = {});

/// Holds the folder for one process, by flock on the folder; throws std::runtime_error if another
/// one has it.
class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace ssa
