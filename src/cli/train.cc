// `ssa train`: one model, one run folder.
#include "train/train.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <stdexcept>

#include "cli/checks.h"
#include "cli/command.h"
#include "cli/config_flags.h"
#include "run/failure.h"
#include "run/run_data.h"
#include "run/run_folder.h"
#include "run/run_status.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

struct TrainArguments {
  fs::path config, out;
  bool resume = false, resume_or_start = false, smoke = false, quiet = false;
  std::int64_t stop_at = 0;
  Settings flags;
};

/// The TOML file's values (a resumed run's own where no file is given), --smoke, then flags.
Config config_of(const TrainArguments& arguments) {
  const std::string source =
      arguments.config.empty() ? arguments.out / "run.json" : arguments.config;
  Settings settings =
      arguments.config.empty()
          ? settings_of(to_json(with_found_data(open_run(arguments.out).config, arguments.out)),
                        source)
          : read_settings(arguments.config);
  if (arguments.smoke) {
    const Settings smoke = settings_of(smoke_values(), "--smoke");
    settings.insert(settings.end(), smoke.begin(), smoke.end());
  }
  settings.insert(settings.end(), arguments.flags.begin(), arguments.flags.end());
  return make_config(settings, source);
}

void run_train(TrainArguments& arguments, int& exit_code) {
  if (arguments.config.empty() && !(arguments.resume && !arguments.out.empty())) {
    throw std::runtime_error(
        "train: a CONFIG.toml is needed (or --resume with --out, for the config of that run)");
  }
  if (arguments.out.empty()) arguments.out = fs::path("runs") / arguments.config.stem();
  const auto config = [&] {
    try {
      return config_of(arguments);
    } catch (const std::exception&) {
      const bool goes_on = arguments.resume || arguments.resume_or_start;
      if (goes_on) note_refusal(arguments.out, describe_current_exception());
      throw;
    }
  }();
  TrainOptions options;
  options.folder = arguments.out;
  options.resume = arguments.resume;
  options.resume_or_start = arguments.resume_or_start;
  options.stop_at = arguments.stop_at;
  options.quiet = arguments.quiet;
  const TrainOutcome outcome = train(config, options);
  if (outcome.signal != 0) exit_code = 128 + outcome.signal;
}

}  // namespace

const Json& smoke_values() {
  static const Json values = {{"train",
                               {{"steps", 2},
                                {"batch", 2},
                                {"accumulation", 1},
                                {"warmup_steps", 0},
                                {"log_interval", 1},
                                {"eval_batches", 1}}}};
  return values;
}

void add_train(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<TrainArguments>();
  app.add_option("CONFIG", arguments->config, "TOML file of the run; may be left out on --resume");
  app.add_option("--out", arguments->out, "run folder to write [runs/NAME-OF-CONFIG]");
  CLI::Option* resume = app.add_flag("--resume", arguments->resume,
                                     "go on from the newest checkpoint of the run folder");
  app.add_flag("--resume-or-start", arguments->resume_or_start,
               "the same if the folder holds a run, else start one: for torchrun --max-restarts "
               "and jobs that are queued again")
      ->excludes(resume);
  app.add_option("--stop-at", arguments->stop_at,
                 "save and stop after that step; --resume goes on from there")
      ->check(whole_number(1));
  app.add_flag("--smoke", arguments->smoke,
               "try the config: 2 steps, batch 2, 1 validation batch, whatever it says");
  app.add_flag("--quiet", arguments->quiet, "say nothing; log.txt is written all the same");
  add_config_flags(app, arguments->flags);
  app.footer(
      "Ctrl-C once saves the state after the running step (then --resume goes on), twice kills.\n"
      "Example: ssa train configs/icl-every-small.toml --out runs/every --score softmax --seed 3");
  app.callback([arguments, &exit_code] { run_train(*arguments, exit_code); });
}

}  // namespace ssa
