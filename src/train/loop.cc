#include "train/loop.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>

#include "config/fnv1a.h"
#include "config/version.h"
#include "files/durable_files.h"
#include "model/autocast.h"
#include "model/device.h"
#include "model/hugging_face/architecture.h"
#include "model/model.h"
#include "op/attention.h"
#include "run/failure.h"
#include "run/metrics.h"
#include "run/run_folder.h"
#include "run/run_log.h"
#include "run/run_status.h"
#include "ssa/attention.h"
#include "ssa/random.h"
#include "tasks/task.h"
#include "train/checkpoint.h"
#include "train/memory_need.h"
#include "train/optimizer.h"
#include "train/processes.h"
#include "train/schedule.h"
#include "train/score_landing.h"
#include "train/signals.h"

namespace ssa {
namespace {

/// What a resumed run may change: nothing that a step depends on, but for the end of the schedule.
constexpr std::array<std::string_view, 9> kMayChange = {"steps",
                                                        "log_interval",
                                                        "eval_interval",
                                                        "eval_batches",
                                                        "checkpoint_interval",
                                                        "keep_checkpoints",
                                                        "threads",
                                                        "device",
                                                        "recompute"};

/// Whether it has weights but no step behind it, as an imported run.
bool is_at_step_zero(const Run& run) {
  const auto steps = checkpoint_steps(run.folder);
  return !steps.empty() && steps.back() == 0;
}

/// Fields that name files: another path to the same content is the same run (require_same_data).
constexpr std::array<std::string_view, 6> kPaths = {
    "tokenizer", "merges", "text", "validation_text", "tokens", "validation_tokens"};

/// Whether run.json knows what the files of that field held, so that their path does not matter.
bool is_known_by_content(const Run& run, std::string_view key) {
  const std::string_view hashed = key == "merges" ? "tokenizer" : key;  // one hash for both
  return std::ranges::find(kPaths, key) != kPaths.end() &&
         run.record.value("data", Json::object()).contains(fmt::format("task.{}", hashed));
}

/// An imported run becomes what is asked for with its first step, but for the model.
void require_same_run(const Run& run, const Config& config) {
  const Json before = to_json(run.config);
  const Json wanted = to_json(config);
  for (const auto& [section, fields] : before.items()) {
    if (section != ModelConfig::kSection && is_at_step_zero(run)) continue;
    for (const auto& [key, value] : fields.items()) {
      const Json& asked = wanted[section][key];
      if (asked == value || std::ranges::find(kMayChange, key) != kMayChange.end()) continue;
      if (section == "task" && is_known_by_content(run, key)) continue;
      throw std::runtime_error(
          fmt::format("{}: {}.{} is {} in this run, but {} is asked for; a resumed run may change "
                      "only {}",
                      run.folder.string(), section, key, value.dump(), asked.dump(),
                      fmt::join(kMayChange, ", ")));
    }
  }
}

/// What a step trains on depends on it.
void require_same_processes(const Run& run, int processes) {
  const auto before = run.record.value("processes", 1);
  if (before == processes || checkpoint_steps(run.folder).empty() || is_at_step_zero(run)) return;
  throw std::runtime_error(fmt::format("{}: {} processes train this run, but {} want to go on",
                                       run.folder.string(), before, processes));
}

/// Threads are each process's own.
void require_same_in_all(Processes& processes, Config config, const TrainOptions& options,
                         const Json& data) {
  config.train.threads = 0;
  const std::string all =
      fmt::format("{} {} {} {} {} {} {}", to_json(config).dump(), data.dump(), options.stop_at,
                  options.resume, options.resume_or_start, version(), git_id());
  processes.require_same(fnv1a(all), "config, flags, data or program");
}

bool due(std::int64_t step, std::int64_t interval, std::int64_t steps) {
  return step == steps || (interval > 0 && step % interval == 0);
}

/// "n = 1.5 (trained), b = 0.8 (fixed), one set a head, softplus"
std::string describe_score_parameters(const ModelConfig& model) {
  const ScoreInfo& score = find_score(model.score);
  if (score.params.empty()) return "no parameters";
  const auto values = model.initial_score_values();
  std::string out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    out += fmt::format("{} = {:.6g} ({}), ", score.params[i].name, values[i],
                       model.trains(score.params[i]) ? "trained" : "fixed");
  }
  return out + fmt::format("one set a {}, {}", name_of(model.score_share),
                           name_of(model.parametrisation));
}

/// "layer 2: b = 0, which must be finite and > 0" for the first parameter of the score that has
/// left its range (with parametrisation raw an update can push it out), else "".
std::string score_parameter_out_of_range(const Model& model) {
  const auto layers = model.score_parameters();
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    for (const ScoreParameterValues& parameter : layers[layer]) {
      const torch::Tensor bad = parameter.values.masked_select(
          ~torch::isfinite(parameter.values) | (parameter.values <= parameter.info->above));
      if (bad.numel() > 0) {
        return fmt::format("layer {}: {} = {:.6g}, which must be {}", layer, parameter.name,
                           bad[0].item<double>(), range_of(*parameter.info));
      }
    }
  }
  return "";
}

std::string figures_text(const std::map<std::string, double>& figures) {
  std::string out;
  for (const auto& [name, value] : figures) out += fmt::format("  {} {:.4g}", name, value);
  return out;
}

/// Dropout draws from torch's generator: the same numbers in whichever process a slice is, and in a
/// resumed run.
void seed_dropout(std::int64_t seed, std::int64_t step, std::int64_t slice) {
  const auto low = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  torch::manual_seed(philox4x32(static_cast<std::uint64_t>(seed),
                                {low(step), low(step >> 32), low(slice),
                                 static_cast<std::uint32_t>(RandomStream::dropout)})[0]);
}

class Trainer {
 public:
  Trainer(const Config& config, const TrainOptions& options, Processes& processes,
          std::unique_ptr<Task> task, std::shared_ptr<Model> model, const RunLock* lock = nullptr)
      : config_(config),
        folder_(options.folder),
        lock_(lock),
        stop_at_(options.stop_at),
        processes_(processes),
        task_(std::move(task)),
        model_(std::move(model)),
        device_(model_->device()),
        optimizer_(config.train, *model_) {
    if (processes.is_first()) log_.emplace(options.folder, options.quiet);
  }

  void load_newest_checkpoint();
  void share_state();
  ScoreValues landing_begin() const;
  TrainOutcome run();
  /// Of the last step that is done; for other threads too.
  std::int64_t step() const { return step_done_; }

 private:
  using Clock = std::chrono::steady_clock;

  void say(const std::string& line);
  void say_what_runs();
  bool asked_to_stop();
  torch::Tensor loss_of(const Batch& batch);
  double accumulate_gradients();
  void take_step();
  std::string first_not_finite();
  std::string first_weight_not_finite() const;
  [[noreturn]] void fail(const std::string& what) const;
  void report_step(double loss, double norm, double learning_rate);
  void validate();
  void save();
  double seconds() const;

  const Config& config_;
  std::filesystem::path folder_;
  const RunLock* lock_;  // of the first process, whose folder it is
  std::int64_t stop_at_;
  Processes& processes_;
  std::unique_ptr<Task> task_;
  std::shared_ptr<Model> model_;
  torch::Device device_;  // the model's
  Optimizer optimizer_;
  std::optional<RunLog> log_;           // of the first process, which alone
  std::optional<MetricsFile> metrics_;  // writes the run folder
  TrainerState state_;
  std::atomic<std::int64_t> step_done_ = 0;  // state_.step
  std::int64_t saved_step_ = -1;
  bool said_what_runs_ = false;
  StopSignals signals_;
  int signal_ = 0;                   // that any process has received
  bool validation_missing_ = false;  // of the last step: a signal ended it
  Clock::time_point started_;
  std::int64_t tokens_ = 0;       // since the last line of metrics
  double seconds_at_line_ = 0.0;  // training time then
};

void Trainer::load_newest_checkpoint() {
  const auto steps = checkpoint_steps(folder_);
  if (steps.empty()) return;
  const auto checkpoint = checkpoint_folder(folder_, steps.back());
  state_ = load_checkpoint(checkpoint, *model_, optimizer_);
  step_done_ = state_.step;
  saved_step_ = state_.step;
  if (state_.step > config_.train.steps) {
    throw std::runtime_error(
        fmt::format("{}: train.steps = {} lies before its newest checkpoint, {}", folder_.string(),
                    config_.train.steps, state_.step));
  }
}

/// Where the score's parameters stand before the first step; of a run that has done steps, what its
/// checkpoint says. Runs from before checkpoints said it began at model.score_initial.
ScoreValues Trainer::landing_begin() const {
  if (config_.train.score_landing_steps == 0) return {};
  if (!state_.landing_begin.empty()) return state_.landing_begin;
  ScoreValues begin = score_values(*model_);
  if (state_.step == 0) return begin;
  const std::vector<double> values = config_.model.initial_score_values();
  for (auto& layer : begin) {
    for (std::size_t i = 0; i < layer.size(); ++i) layer[i].fill_(values[i]);
  }
  return begin;
}

/// The first process's, which has read the checkpoint.
void Trainer::share_state() {
  torch::Tensor numbers = torch::tensor(
      {static_cast<double>(state_.step), static_cast<double>(saved_step_), state_.seconds},
      torch::kFloat64);
  std::vector<torch::Tensor> all = optimizer_.moments();
  for (const auto& tensors : {model_->parameters(), model_->buffers()}) {
    all.insert(all.end(), tensors.begin(), tensors.end());
  }
  all.push_back(numbers);
  ScoreValues landing = landing_begin();
  for (const auto& layer : landing) all.insert(all.end(), layer.begin(), layer.end());
  processes_.broadcast(all);
  state_.step = static_cast<std::int64_t>(numbers[0].item<double>());
  state_.seconds = numbers[2].item<double>();
  state_.landing_begin = std::move(landing);
  step_done_ = state_.step;
  saved_step_ = static_cast<std::int64_t>(numbers[1].item<double>());
  optimizer_.set_steps_done(state_.step);
}

void Trainer::say(const std::string& line) {
  if (log_) log_->say(line);
}

/// The same in every process: a signal may have reached one of them before the others.
bool Trainer::asked_to_stop() {
  const torch::Tensor received = torch::zeros({static_cast<std::int64_t>(kStopSignals.size())});
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    if (signals_.received() == kStopSignals[i]) received[static_cast<std::int64_t>(i)] = 1.0F;
  }
  processes_.sum({received});
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    if (received[static_cast<std::int64_t>(i)].item<float>() > 0) signal_ = kStopSignals[i];
  }
  return signal_ != 0 || (stop_at_ > 0 && state_.step >= stop_at_);
}

double Trainer::seconds() const {
  return state_.seconds + std::chrono::duration<double>(Clock::now() - started_).count();
}

/// The path is asked of the operator after a forward pass, not concluded from the config.
void Trainer::say_what_runs() {
  said_what_runs_ = true;
  const ScoreInfo& score = find_score(config_.model.score);
  say(fmt::format("score {}: phi(s) = {}; {}", score.name, score.formula,
                  describe_score_parameters(config_.model)));
  const std::string path = last_attention_path();
  const int processes = processes_.size();
  say(fmt::format("attention ran on the {} path{}, {}{}", path,
                  path == "fused" ? fmt::format(" ({})", kernel_target()) : "",
                  device_.is_cpu() ? fmt::format("{} threads", at::get_num_threads())
                                   : fmt::format("on {}", device_.str()),
                  processes > 1 ? fmt::format(" in each of {} processes", processes) : ""));
  say(fmt::format("model of {} layers, {} heads, width {}: {} parameters; task {}; seed {}",
                  config_.model.layers, config_.model.heads, config_.model.width,
                  count_parameters(*model_), name_of(config_.task.name), config_.train.seed));
  if (config_.model.family != Family::number) {
    const std::string why_not = hugging_face_config(config_.model).why_not;
    if (!why_not.empty()) say("checkpoints have no config.json of Hugging Face: " + why_not);
  }
  for (const std::string& note : task_->notes()) say(note);
  for (const std::string& warning : task_->warnings()) say("warning: " + warning);
  say(fmt::format("steps {} to {}", state_.step + 1, config_.train.steps));
}

/// Autocast ends with the forward pass: the backward pass follows its types.
torch::Tensor Trainer::loss_of(const Batch& batch) {
  const Autocast autocast(config_.train.precision, device_);
  return task_->loss(task_->output(*model_, batch), batch);
}

/// Gradients of the mean loss over the step's slices, which the processes share; returns that loss.
double Trainer::accumulate_gradients() {
  optimizer_.zero_gradients();
  const std::int64_t slices = config_.train.accumulation * processes_.size();
  // Read once, when the last slice has been begun: until then nothing waits for the device.
  const torch::Tensor total = torch::zeros({}, torch::dtype(torch::kFloat64).device(device_));
  double tokens = 0.0;
  for (std::int64_t slice = processes_.rank(); slice < slices; slice += processes_.size()) {
    seed_dropout(config_.train.seed, state_.step, slice);
    const Batch batch = task_->training_batch(state_.step, slice);
    const torch::Tensor loss = loss_of(batch) / static_cast<double>(slices);
    if (!said_what_runs_) say_what_runs();
    loss.backward();
    total.add_(loss.detach());
    tokens += static_cast<double>(batch.inputs.tokens.numel());
  }
  const torch::Tensor figures = torch::tensor({total.item<double>(), tokens}, torch::kFloat64);
  std::vector<torch::Tensor> shared = optimizer_.gradients();
  shared.push_back(figures);
  processes_.sum(shared);
  tokens_ += static_cast<std::int64_t>(figures[1].item<double>());
  return figures[0].item<double>();
}

/// The first layer, in the order of the forward pass, that explains numbers that are not finite.
std::string Trainer::first_not_finite() {
  const std::string weight = first_weight_not_finite();
  if (!weight.empty()) return "weight " + weight;
  const torch::NoGradGuard no_gradient;
  model_->record_attention(true);
  const Autocast autocast(config_.train.precision, device_);
  model_->hidden(task_->training_batch(state_.step, 0).inputs);
  const auto& layers = model_->attention_records();
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (!torch::isfinite(layers[layer].weights).all().item<bool>()) {
      return fmt::format("attention weights of layer {}", layer);
    }
  }
  const std::string gradient = optimizer_.first_gradient_not_finite();
  return gradient.empty() ? "the loss alone" : "gradient of " + gradient;
}

/// By the name that it has in model.safetensors; "" if there is none.
std::string Trainer::first_weight_not_finite() const {
  for (const auto& [name, weight] : model_->named_weights()) {
    if (!torch::isfinite(weight).all().item<bool>()) return name;
  }
  return "";
}

void Trainer::fail(const std::string& what) const {
  const std::string kept = saved_step_ < 0
                               ? "no checkpoint had been written"
                               : fmt::format("last good checkpoint: {}",
                                             checkpoint_folder(folder_, saved_step_).string());
  throw std::runtime_error(fmt::format("{}: stopped in step {} at learning rate {:.3g}: {}; {}",
                                       folder_.string(), state_.step + 1,
                                       learning_rate_at(config_.train, state_.step), what, kept));
}

void Trainer::take_step() {
  double loss = 0.0;
  double norm = 0.0;
  const double learning_rate = learning_rate_at(config_.train, state_.step);
  if (const auto landing = landing_values(config_, state_.landing_begin, state_.step)) {
    for (std::size_t layer = 0; layer < landing->size(); ++layer) {
      model_->set_score_parameters(layer, (*landing)[layer]);
    }
  }
  try {
    loss = accumulate_gradients();
    if (is_landing(config_.train, state_.step)) optimizer_.drop_score_gradients();
    norm = optimizer_.clip_gradients();
  } catch (const c10::Error& error) {
    if (memory_ran_out()) throw;
    const std::string parameter = score_parameter_out_of_range(*model_);
    fail(error.what_without_backtrace() +
         (parameter.empty() ? "" : "; out of range: " + parameter));
  }
  if (!std::isfinite(loss) || !std::isfinite(norm)) {
    fail(fmt::format("loss {}, gradient norm {}; first not finite: {}", loss, norm,
                     first_not_finite()));
  }
  optimizer_.step(learning_rate);
  step_done_ = ++state_.step;
  if (!log_) return;
  log_->progress(state_.step, config_.train.steps,
                 fmt::format("loss {:.4f}  lr {:.2e}", loss, learning_rate));
  if (due(state_.step, config_.train.log_interval, config_.train.steps)) {
    report_step(loss, norm, learning_rate);
  }
}

void Trainer::report_step(double loss, double norm, double learning_rate) {
  const double now = seconds();
  const double rate = static_cast<double>(tokens_) / std::max(now - seconds_at_line_, 1e-9);
  tokens_ = 0;
  seconds_at_line_ = now;
  const auto progress = task_->progress(state_.step - 1);
  Json layers = Json::array();
  for (const auto& layer : model_->score_parameters()) {
    Json values = Json::object();
    for (const auto& parameter : layer) {
      values[parameter.name] = {parameter.values.min().item<double>(),
                                parameter.values.mean().item<double>(),
                                parameter.values.max().item<double>()};
    }
    layers.push_back(values);
  }
  metrics_->write({{"step", state_.step},
                   {"loss", loss},
                   {"learning_rate", learning_rate},
                   {"gradient_norm", norm},
                   {"seconds", now},
                   {"tokens_per_second", rate},
                   {"progress", progress},
                   {"score_parameters", layers}});
  log_->say_figures(
      fmt::format("step {}/{}  loss {:.4f}  lr {:.2e}  norm {:.3g}{}  {:.0f} tokens/s", state_.step,
                  config_.train.steps, loss, learning_rate, norm, figures_text(progress), rate));
}

/// Of the step that is done. A signal ends it without a line: a run that goes on from the
/// checkpoint of this step begins with its validation.
void Trainer::validate() {
  if (!log_ || config_.train.eval_batches == 0) return;
  const torch::NoGradGuard no_gradient;
  model_->eval();
  std::map<std::string, double> sums;
  for (std::int64_t index = 0; index < config_.train.eval_batches; ++index) {
    if (signals_.received() != 0) break;
    const Batch batch = task_->validation_batch(index);
    const Autocast autocast(config_.train.precision, device_);
    const torch::Tensor output = task_->output(*model_, batch);
    sums["loss"] += task_->loss(output, batch).item<double>();
    for (const auto& [name, value] : task_->metrics(output, batch)) sums[name] += value;
  }
  model_->train();
  if (signals_.received() != 0) {
    signal_ = signals_.received();
    validation_missing_ = true;
    return;
  }
  for (auto& [name, sum] : sums) sum /= static_cast<double>(config_.train.eval_batches);
  metrics_->write({{"step", state_.step}, {"validation", sums}});
  log_->say(fmt::format("step {}/{}  validation{}", state_.step, config_.train.steps,
                        figures_text(sums)));
}

void Trainer::save() {
  if (saved_step_ == state_.step) return;
  const std::string weight = first_weight_not_finite();
  if (!weight.empty()) fail("the last update made weight " + weight + " not finite");
  const std::string moment = optimizer_.first_moment_not_finite();
  if (!moment.empty()) {
    fail("the last update made the optimizer's moments of " + moment + " not finite");
  }
  if (processes_.is_first()) {
    lock_->require_held();
    // The step at which a landing ends gives the target's values once more.
    const bool lands = state_.step <= config_.train.score_landing_steps;
    save_checkpoint(folder_, {state_.step, seconds(), lands ? state_.landing_begin : ScoreValues()},
                    *model_, optimizer_);
    remove_old_checkpoints(folder_, config_.train.keep_checkpoints);
  }
  saved_step_ = state_.step;
}

TrainOutcome Trainer::run() {
  const std::int64_t steps = config_.train.steps;
  share_state();
  if (log_) metrics_.emplace(folder_, state_.step);
  started_ = Clock::now();
  seconds_at_line_ = state_.seconds;
  model_->train();
  model_->recompute_blocks(config_.train.recompute);
  const auto validation_due = [&] {
    return state_.step > 0 && due(state_.step, config_.train.eval_interval, steps);
  };
  if (validation_due() && metrics_ && !metrics_->has_validation()) validate();
  while (state_.step < steps && !asked_to_stop()) {
    take_step();
    // The checkpoint first: it must not wait for the validation, which may be long. A stopped run
    // must not validate or log more than an uninterrupted one does at this step.
    if (due(state_.step, config_.train.checkpoint_interval, steps)) save();
    if (validation_due()) validate();
  }
  save();
  if (lock_ != nullptr) lock_->require_held();
  const bool finished = state_.step == steps && !validation_missing_;
  say(fmt::format("{} step {} after {:.1f} s: {}", finished ? "finished" : "stopped after",
                  state_.step, seconds(), checkpoint_folder(folder_, state_.step).string()));
  processes_.meet();  // the others wait for the first one's last validation and checkpoint
  return {state_.step, finished, finished ? 0 : signal_, seconds()};
}

/// The run that the folder holds, or a new one; this process has its lock.
Run begin_run(const Config& config, const TrainOptions& options, bool go_on, const Task& task,
              const Model& model, int processes) {
  for (const char* part : {"", "checkpoints", "evals"}) sweep_temporaries(options.folder / part);
  if (!go_on) {
    return create_run(options.folder, config,
                      {.name = run_name(options.folder),
                       .parameters = count_parameters(model),
                       .processes = processes,
                       .data = task.data(),
                       .warnings = task.warnings()});
  }
  Run run = open_run(options.folder);
  for (const char* part : {"checkpoints", "evals"}) {
    std::filesystem::create_directories(options.folder / part);
  }
  require_same_run(run, config);
  require_same_processes(run, processes);
  require_same_data(run, task.data());
  if (is_at_step_zero(run)) run.record["data"] = task.data();
  return run;
}

std::string failure_text() {
  const std::string what = describe_current_exception();
  return memory_ran_out() ? fmt::format("{}; {}", what, kLessMemory) : what;
}

/// Of an error that the run folder tells of.
struct NotedFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void note_failure(const std::filesystem::path& folder, std::int64_t step,
                  const std::string& reason) {
  try {
    append_to_log(folder, "failed: " + reason);
    write_status(folder, {.state = RunStatus::State::failed, .step = step, .reason = reason});
  } catch (const std::exception&) {  // the folder is gone, or the disk full: `reason` says it
  }
}

/// Trains, and says in the folder how that ended.
TrainOutcome run_noting_end(Trainer& trainer, Processes& processes,
                            const std::filesystem::path& folder) {
  using State = RunStatus::State;
  struct WhileTheTrainerLives {
    Processes& processes;
    ~WhileTheTrainerLives() { processes.before_lost({}); }
  } const told{processes};
  processes.before_lost([&trainer, folder](const std::string& reason) {
    note_failure(folder, trainer.step(), reason);
  });
  try {
    write_status(folder, {.state = State::running, .step = trainer.step()});
    const TrainOutcome outcome = trainer.run();
    const std::string reason =
        outcome.signal == 0 ? "" : fmt::format("signal {}", strsignal(outcome.signal));
    write_status(folder, {.state = outcome.finished ? State::finished : State::stopped,
                          .step = outcome.step,
                          .reason = reason});
    return outcome;
  } catch (const std::exception&) {
    const std::string reason = failure_text();
    note_failure(folder, trainer.step(), reason);
    throw NotedFailure(reason);
  }
}

/// Several processes cannot have one numbered device.
torch::Device device_of(const Config& config, Processes& processes) {
  const std::string& name = config.train.device;
  if (processes.size() > 1 && name.starts_with("cuda:")) {
    throw std::runtime_error(
        fmt::format("train.device = \"{}\" is one device for {} processes: \"cuda\" gives each the "
                    "one of its LOCAL_RANK",
                    name, processes.size()));
  }
  const torch::Device device =
      find_device("train.device", name, name == "cuda" ? processes.local_rank() : 0);
  processes.use_device(device);
  return device;
}

/// `is_ours`: whether what meets this process is a matter of the run that the folder holds.
TrainOutcome train_in(Processes& processes, const Config& config, const TrainOptions& options,
                      bool& is_ours) {
  const torch::Device device = device_of(config, processes);
  Config shared = config;
  shared.train.accumulation *= processes.size();
  auto task = make_task(shared);  // before there is a folder: it may refuse the model
  if (device.is_cpu()) require_memory(config);
  auto model = make_model(config.model, static_cast<std::uint64_t>(config.train.seed));
  model->to(device);
  require_same_in_all(processes, config, options, task->data());
  if (!processes.is_first()) {
    return Trainer(config, options, processes, std::move(task), std::move(model)).run();
  }
  if (options.resume) open_run(options.folder);  // says what is wrong with what is no run
  const RunLock lock(options.folder);            // before anything of it is written
  const bool go_on = options.resume || (options.resume_or_start && holds_run(options.folder));
  Run run = begin_run(config, options, go_on, *task, *model, processes.size());
  is_ours = true;
  Trainer trainer(config, options, processes, std::move(task), std::move(model), &lock);
  if (go_on) {
    trainer.load_newest_checkpoint();
    update_run(run, config, processes.size());
  }
  return run_noting_end(trainer, processes, options.folder);
}

}  // namespace

TrainOutcome train(const Config& config, const TrainOptions& options) {
  if (config.train.threads > 0) at::set_num_threads(static_cast<int>(config.train.threads));
  bool is_ours = options.resume || options.resume_or_start;
  std::optional<Processes> processes;
  try {
    processes.emplace();
    return train_in(*processes, config, options, is_ours);
  } catch (const NotedFailure&) {
    throw;
  } catch (const std::exception&) {
    const std::string reason = failure_text();
    if (is_ours && (!processes || processes->is_first())) note_refusal(options.folder, reason);
    throw std::runtime_error(reason);
  }
}

}  // namespace ssa
