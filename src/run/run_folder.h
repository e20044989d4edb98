// The run folder (docs/formats.md): the only thing that passes between commands.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "files/file_descriptor.h"
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

/// Holds the folder for one process, by flock on the folder; throws std::runtime_error if another
/// one has it. What begins a run takes it before anything is looked at or written.
class RunLock {
 public:
  /// The folder is made where it does not exist.
  explicit RunLock(const std::filesystem::path& folder);

  /// Throws std::runtime_error unless the folder that is locked still has its name.
  void require_held() const;

 private:
  std::filesystem::path folder_;
  FileDescriptor descriptor_;
};

/// What run.json says beside the config.
struct RunFacts {
  std::string name;
  std::int64_t parameters = 0;
  int processes = 1;
  Json data = Json::object();              ///< Task::data
  std::vector<std::string> warnings = {};  ///< Task::warnings
};

/// Writes run.json into the folder, which this process has locked. Throws std::runtime_error if it
/// already holds a run or anything else.
Run create_run(const std::filesystem::path& folder, const Config& config, const RunFacts& facts);

/// The last part of the folder's path: "x" of runs/x/, and of "." the folder's own.
std::string run_name(const std::filesystem::path& folder);

/// Throws std::runtime_error naming what of `data` is not what it was when the run began. `data`
/// may lack what is not asked about.
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
/// mode, on that device. Throws std::runtime_error naming the folder or file if there is no such
/// checkpoint or it is broken.
LoadedModel load_model(const Run& run, std::optional<std::int64_t> step = {},
                       torch::Device device = torch::kCPU);

}  // namespace ssa
