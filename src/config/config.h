// Everything a training run depends on. Values come from three places, later ones over earlier
// ones: the model's preset, the TOML file, flags (or an experiment's cell). The resolved values are
// what run.json keeps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "config/model_config.h"

namespace ssa {

/// What is learned, and from which sequences.
struct TaskConfig {
  static constexpr std::string_view kSection = "task";

  TaskName name = TaskName::icl_every;
  IclSampler sampler = IclSampler::balanced;
  std::int64_t points_start = 11;
  std::int64_t points_end = 41;
  std::int64_t points_step = 2;
  std::int64_t points_interval = 2000;
  std::string tokenizer = "";
  std::string merges = "";
  std::vector<std::string> text = {};
  std::vector<std::string> validation_text = {};
  std::vector<std::string> tokens = {};
  std::vector<std::string> validation_tokens = {};
  std::int64_t length = 0;
  Documents documents = Documents::apart;
  Masking masking = Masking::babyberta;
  double mask_probability = 0.15;
  std::int64_t least_words = 3;
  TextOrder order = TextOrder::shuffle;
  bool skip_bad_lines = false;

  template <class Visit>
  static void fields(Visit&& visit) {
    using C = TaskConfig;
    visit(Field{.name = "name",
                .help = "in-context quantifier every, quantifier some, or linear function; lm = "
                        "language modelling of tokens, mlm = masked language modelling of text",
                .flag = "task"},
          &C::name);
    visit(
        Field{.name = "sampler",
              .help = "inputs of the quantifier tasks: balanced = the answer flips at a uniformly "
                      "drawn position, plain = N(0,1), where every is nearly always false",
              .tasks = {"icl"}},
        &C::sampler);
    visit(Field{.name = "points_start",
                .help = "curriculum: (x, y) pairs of a sequence at step 0",
                .least = 1,
                .tasks = {"icl"}},
          &C::points_start);
    visit(Field{.name = "points_end",
                .help = "curriculum: pairs at its end",
                .least = 1,
                .tasks = {"icl"}},
          &C::points_end);
    visit(Field{.name = "points_step",
                .help = "curriculum: pairs added at a time",
                .least = 1,
                .tasks = {"icl"}},
          &C::points_step);
    visit(Field{.name = "points_interval",
                .help = "curriculum: steps between additions",
                .least = 1,
                .tasks = {"icl"}},
          &C::points_interval);
    visit(Field{.name = "tokenizer",
                .help = "tokenizer.json, lm also a .model of SentencePiece; a path is also "
                        "looked for in the folder SSA_DATA",
                .tasks = {"lm", "mlm"}},
          &C::tokenizer);
    visit(Field{.name = "merges",
                .help = "merges.txt, where the tokenizer is a vocab.json",
                .tasks = {"lm"}},
          &C::merges);
    visit(
        Field{
            .name = "text", .help = "files of one sentence a line, to train on", .tasks = {"mlm"}},
        &C::text);
    visit(Field{.name = "validation_text", .help = "the same, held out", .tasks = {"mlm"}},
          &C::validation_text);
    visit(Field{.name = "tokens",
                .help = "prefixes of what `ssa data tokenize` wrote, to train on; also looked "
                        "for in the folder SSA_DATA",
                .tasks = {"lm"}},
          &C::tokens);
    visit(Field{.name = "validation_tokens", .help = "the same, held out", .tasks = {"lm"}},
          &C::validation_tokens);
    visit(Field{.name = "length",
                .help = "tokens of a training sequence; 0 = model.max_positions",
                .least = 0,
                .tasks = {"lm"}},
          &C::length);
    visit(Field{.name = "documents",
                .help = "apart = a token sees those of its own document alone, across = it sees "
                        "all of its sequence before it",
                .tasks = {"lm"}},
          &C::documents);
    visit(Field{.name = "masking",
                .help = "babyberta = 90 % of chosen tokens masked, 10 % random, up to 10 "
                        "patterns a sentence, drawn beforehand; roberta = 80 % masked, 10 % "
                        "random, 10 % kept, drawn anew in every pass",
                .tasks = {"mlm"}},
          &C::masking);
    visit(Field{.name = "mask_probability",
                .help = "with which a token is chosen",
                .least = 0.001,
                .most = 1,
                .tasks = {"mlm"}},
          &C::mask_probability);
    visit(Field{.name = "least_words",
                .help = "words of a sentence; shorter ones are left out",
                .least = 1,
                .tasks = {"mlm"}},
          &C::least_words);
    visit(Field{.name = "order",
                .help = "shuffle = anew in every pass, file = as the text has it",
                .tasks = {"lm", "mlm"}},
          &C::order);
    visit(Field{.name = "skip_bad_lines",
                .help = "leave lines out that are not UTF-8, instead of stopping",
                .tasks = {"mlm"}},
          &C::skip_bad_lines);
  }
};

/// How it is trained. The defaults are the paper's for in-context learning.
struct TrainConfig {
  static constexpr std::string_view kSection = "train";

  std::int64_t steps = 500001;
  std::int64_t batch = 64;
  std::int64_t accumulation = 1;
  Precision precision = Precision::float32;
  bool recompute = false;
  OptimizerKind optimizer = OptimizerKind::adam;
  double learning_rate = 1e-4;
  ScheduleKind schedule = ScheduleKind::constant;
  std::int64_t warmup_steps = 0;
  double final_learning_rate = 0.0;
  double score_learning_rate = 0.0;
  std::vector<double> score_landing = {};
  std::int64_t score_landing_steps = 0;
  double weight_decay = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double momentum = 0.95;
  double epsilon = 1e-8;
  bool bias_correction = true;
  double clip = 0.0;
  std::int64_t seed = 1;
  std::int64_t log_interval = 100;
  std::int64_t eval_interval = 1000;
  std::int64_t eval_batches = 10;
  std::int64_t checkpoint_interval = 1000;
  std::int64_t keep_checkpoints = 2;
  std::int64_t threads = 0;
  std::string device = "cpu";

  template <class Visit>
  static void fields(Visit&& visit) {
    using C = TrainConfig;
    visit(Field{.name = "steps", .help = "optimizer steps", .least = 1}, &C::steps);
    visit(Field{.name = "batch", .help = "sequences of a batch", .least = 1, .most = kMostBatch},
          &C::batch);
    visit(Field{.name = "accumulation",
                .help = "batches whose gradients are averaged for one step",
                .least = 1,
                .most = kMostBatch},
          &C::accumulation);
    visit(Field{.name = "precision",
                .help = "of matrix products and attention; weights, norms, losses and the "
                        "optimizer are float32"},
          &C::precision);
    visit(
        Field{.name = "recompute",
              .help = "whether the backward pass computes each block again instead of keeping what "
                      "it needs: about a third more time, far less memory"},
        &C::recompute);
    visit(
        Field{.name = "optimizer",
              .help =
                  "adam adds weight decay to the gradient, adamw decouples it; muon = Muon for the "
                  "matrices of blocks, with decoupled decay, adamw for the rest"},
        &C::optimizer);
    visit(Field{.name = "learning_rate", .help = "learning rate after warm-up", .above = 0},
          &C::learning_rate);
    visit(Field{.name = "schedule", .help = "course of the learning rate after warm-up"},
          &C::schedule);
    visit(Field{.name = "warmup_steps", .help = "steps of linear warm-up", .least = 0},
          &C::warmup_steps);
    visit(Field{.name = "final_learning_rate",
                .help = "where linear and cosine end, as a share of learning_rate",
                .least = 0,
                .most = 1},
          &C::final_learning_rate);
    visit(Field{.name = "score_learning_rate",
                .help = "learning rate of the score's parameters, with the same course; "
                        "0 = learning_rate",
                .least = 0},
          &C::score_learning_rate);
    visit(Field{.name = "score_landing",
                .help = "values, in the score's order, to which its parameters are moved from "
                        "where they begin, evenly in their distance from softmax; empty = they are "
                        "not moved"},
          &C::score_landing);
    visit(Field{.name = "score_landing_steps",
                .help = "steps of that; afterwards they train, where they are trained",
                .least = 0},
          &C::score_landing_steps);
    visit(Field{.name = "weight_decay",
                .help = "of weight matrices; never of norms, biases and score parameters",
                .least = 0},
          &C::weight_decay);
    visit(Field{.name = "beta1", .help = "decay of the first moment", .least = 0, .below = 1},
          &C::beta1);
    visit(Field{.name = "beta2", .help = "decay of the second moment", .least = 0, .below = 1},
          &C::beta2);
    visit(Field{.name = "momentum",
                .help = "decay of the momentum of matrices (optimizer = muon)",
                .least = 0,
                .below = 1},
          &C::momentum);
    visit(Field{.name = "epsilon", .help = "added to the root of the second moment", .above = 0},
          &C::epsilon);
    visit(Field{.name = "bias_correction", .help = "whether moments are corrected for their start"},
          &C::bias_correction);
    visit(Field{.name = "clip", .help = "largest norm of the gradient; 0 = no limit", .least = 0},
          &C::clip);
    visit(Field{.name = "seed", .help = "of initial weights, data and dropout", .least = 0},
          &C::seed);
    visit(Field{.name = "log_interval", .help = "steps between lines of metrics", .least = 1},
          &C::log_interval);
    visit(Field{.name = "eval_interval",
                .help = "steps between validations; 0 = only at the end",
                .least = 0},
          &C::eval_interval);
    visit(Field{.name = "eval_batches",
                .help = "batches of a validation; 0 = no validation",
                .least = 0},
          &C::eval_batches);
    visit(Field{.name = "checkpoint_interval",
                .help = "steps between checkpoints; 0 = only at the end",
                .least = 0},
          &C::checkpoint_interval);
    visit(Field{.name = "keep_checkpoints",
                .help = "how many of the newest checkpoints stay; 0 = all",
                .least = 0},
          &C::keep_checkpoints);
    visit(Field{.name = "threads", .help = "CPU threads; 0 = all", .least = 0, .most = 4096},
          &C::threads);
    visit(Field{.name = "device",
                .help = "where the model is trained: cpu, cuda (of several processes each has that "
                        "of its LOCAL_RANK) or cuda:N"},
          &C::device);
  }
};

/// Whether a device is called so: what kDeviceNames says. Whether it is there, find_device() tells
/// (model/device.h).
bool is_device_name(std::string_view name);
inline constexpr std::string_view kDeviceNames = "cpu, cuda or cuda:N";

struct Config {
  ModelConfig model;
  TaskConfig task;
  TrainConfig train;

  /// visit(member of Config) for each section.
  template <class Visit>
  static void sections(Visit&& visit) {
    visit(&Config::model);
    visit(&Config::task);
    visit(&Config::train);
  }
};

/// A model preset: values that go over the defaults of ModelConfig.
struct Preset {
  std::string_view name;
  std::string_view help;
  Json values;
};

std::span<const Preset> presets();

using Settings = std::vector<Setting>;

/// The settings of a TOML file ([section] key = value), in order, with file and line as origin.
/// Throws std::runtime_error if it cannot be read or is not TOML.
Settings read_settings(const std::filesystem::path& file);

/// The settings of {"section": {"key": value}} or {"section.key": value}.
Settings settings_of(const Json& values, const std::string& origin);

/// Preset first, then the settings in order (the last one for a key holds). Throws
/// std::invalid_argument naming origin, key and value for unknown sections and keys, wrong types
/// and ranges, and, prefixed by `origin`, for values that do not go together.
Config make_config(const Settings& settings, const std::string& origin);

/// read_settings(file), then `overrides`.
Config load_config(const std::filesystem::path& file, const Settings& overrides = {});

/// {"model": {…}, "task": {…}, "train": {…}} with every field.
Json to_json(const Config& config);

/// Reads to_json's form; `origin` is the file that errors name.
Config config_from_json(const Json& values, const std::string& origin);

}  // namespace ssa
