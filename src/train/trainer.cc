#include "train/trainer.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "config/counted.h"
#include "model/autocast.h"
#include "model/device.h"
#include "model/hugging_face/architecture.h"
#include "op/attention.h"
#include "run/failure.h"
#include "ssa/attention.h"
#include "ssa/random.h"
#include "train/schedule.h"

namespace ssa {
namespace {

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

}  // namespace

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
                  device_.is_cpu() ? counted(at::get_num_threads(), "thread")
                                   : fmt::format("on {}", device_.str()),
                  processes > 1 ? fmt::format(" in each of {} processes", processes) : ""));
  say(fmt::format("model of {}, {}, width {}: {}; task {}; seed {}",
                  counted(config_.model.layers, "layer"), counted(config_.model.heads, "head"),
                  config_.model.width, counted(count_parameters(*model_), "parameter"),
                  name_of(config_.task.name), config_.train.seed));
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

}  // namespace ssa
