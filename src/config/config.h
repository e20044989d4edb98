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
#include "ssa/score_info.h"

namespace ssa {

/// Names of every scoring function, in the order of the list.
std::vector<std::string> score_names();

/// Names of every model preset, in the order of the table.
std::vector<std::string> preset_names();

/// Larger sizes than anybody's: what is above is a slip, and would take all memory of the machine
/// before anything else refused it.
constexpr double kMostLayers = 10000, kMostSize = 1 << 24, kMostBatch = 1 << 20;

/// What a model is. The defaults are the preset gpt2-icl.
struct ModelConfig {
  static constexpr std::string_view kSection = "model";

  std::string preset = "gpt2-icl";
  std::int64_t layers = 12;
  std::int64_t heads = 8;
  std::int64_t kv_heads = 0;
  std::int64_t width = 256;
  bool mlp = true;
  std::int64_t mlp_width = 0;
  std::string activation = "gelu-tanh";
  bool linear_bias = true;
  std::string norm = "layer";
  std::string norm_place = "before";
  double norm_epsilon = 1e-5;
  bool residual = true;
  bool causal = true;
  std::string positions = "learned";
  double rotary_share = 1.0;
  std::int64_t max_positions = 512;
  std::string input = "scalar";
  std::int64_t vocabulary = 0;
  std::int64_t pad_id = 0;
  std::int64_t token_types = 0;
  bool tied = true;
  double dropout = 0.0;
  double init_std = 0.02;
  std::string score = "ssa";
  std::string score_kernel = "auto";
  std::string score_share = "head";
  std::string parametrisation = "softplus";
  std::vector<double> score_initial = {};
  std::vector<std::string> score_frozen = {};
  std::vector<std::string> score_trained = {};

  /// kv_heads with its 0 resolved.
  std::int64_t key_value_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  /// mlp_width with its 0 resolved.
  std::int64_t hidden_width() const { return mlp_width == 0 ? 4 * width : mlp_width; }
  std::int64_t head_dim() const { return width / heads; }
  /// Dimensions of a head that rotary positions turn.
  std::int64_t rotary_dim() const {
    return static_cast<std::int64_t>(rotary_share * static_cast<double>(head_dim()));
  }
  /// Initial value of every parameter of the score, score_initial or the score's own.
  std::vector<double> initial_score_values() const;
  /// Whether that parameter of the score is trained: the score's own choice, score_frozen and
  /// score_trained over it.
  bool trains(const ParamInfo& parameter) const;

  template <class Visit>
  static void fields(Visit&& visit) {
    using C = ModelConfig;
    visit(Field{.name = "preset",
                .help = "values to start from; other keys and flags go over them",
                .choices = preset_names()},
          &C::preset);
    visit(Field{.name = "layers", .help = "number of blocks", .least = 1, .most = kMostLayers},
          &C::layers);
    visit(Field{.name = "heads",
                .help = "query heads of a layer; divides width",
                .least = 1,
                .most = kMostSize},
          &C::heads);
    visit(Field{.name = "kv_heads",
                .help = "key and value heads of a layer; divides heads; 0 = heads",
                .least = 0},
          &C::kv_heads);
    visit(Field{.name = "width",
                .help = "dimension of the residual stream",
                .least = 1,
                .most = kMostSize},
          &C::width);
    visit(Field{.name = "mlp", .help = "whether a block has an MLP after its attention"}, &C::mlp);
    visit(Field{.name = "mlp_width",
                .help = "hidden width of the MLP; 0 = 4 * width",
                .least = 0,
                .most = kMostSize},
          &C::mlp_width);
    visit(Field{.name = "activation",
                .help = "of the MLP: gelu = with the error function, gelu-tanh = its tanh form, "
                        "relu-squared = max(x, 0)²",
                .choices = {"gelu", "gelu-tanh", "relu-squared"}},
          &C::activation);
    visit(Field{.name = "linear_bias", .help = "whether the linear layers of blocks have a bias"},
          &C::linear_bias);
    visit(
        Field{.name = "norm",
              .help = "layer = LayerNorm of attention, MLP and read-out; layer-1p = the same, its "
                      "weight stored less 1, so that weight decay pulls it to 1; none = no norm",
              .choices = {"layer", "layer-1p", "none"}},
        &C::norm);
    visit(Field{.name = "norm_place",
                .help = "before = norm of what attention and MLP read (GPT-2), after = norm of "
                        "their output with its residual (BERT)",
                .choices = {"before", "after"}},
          &C::norm_place);
    visit(Field{.name = "norm_epsilon", .help = "added to a norm's variance", .above = 0},
          &C::norm_epsilon);
    visit(Field{.name = "residual", .help = "whether a block adds its input to its output"},
          &C::residual);
    visit(
        Field{.name = "causal",
              .help = "whether a token sees itself and earlier ones only, or all of its sequence"},
        &C::causal);
    visit(Field{.name = "positions",
                .help = "learned = a vector per position, rope = rotary, none = no positions",
                .choices = {"learned", "rope", "none"}},
          &C::positions);
    visit(Field{.name = "rotary_share",
                .help = "share of a head's dimensions that rotary positions turn, the first ones",
                .most = 1,
                .above = 0},
          &C::rotary_share);
    visit(Field{.name = "max_positions",
                .help = "longest sequence in tokens",
                .least = 1,
                .most = kMostSize},
          &C::max_positions);
    visit(Field{.name = "input",
                .help = "scalar = one number a token, read in and out by linear layers; tokens = "
                        "ids, embedded, and logits over the vocabulary",
                .choices = {"scalar", "tokens"}},
          &C::input);
    visit(Field{.name = "vocabulary",
                .help = "number of token ids (input = tokens)",
                .least = 0,
                .most = kMostSize},
          &C::vocabulary);
    visit(Field{.name = "pad_id", .help = "token id of padding (input = tokens)", .least = 0},
          &C::pad_id);
    visit(Field{.name = "token_types",
                .help = "token types that have an embedding, of which all tokens have the first "
                        "(input = tokens); 0 = no such embedding",
                .least = 0,
                .most = kMostSize},
          &C::token_types);
    visit(Field{.name = "tied",
                .help = "whether the logits come from the token embeddings (input = tokens), or "
                        "from a matrix of their own"},
          &C::tied);
    visit(Field{.name = "dropout",
                .help = "dropout of embeddings, attention weights and block outputs in training",
                .least = 0,
                .below = 1},
          &C::dropout);
    visit(Field{.name = "init_std", .help = "standard deviation of initial weights", .above = 0},
          &C::init_std);
    visit(Field{.name = "score", .help = "scoring function (ssa scores)", .choices = score_names()},
          &C::score);
    visit(Field{.name = "score_kernel",
                .help = "attention path: fused, composed, or auto = fused where it can",
                .choices = {"auto", "fused", "composed"}},
          &C::score_kernel);
    visit(Field{.name = "score_share",
                .help = "head = every head its own score parameters, layer = one set a layer",
                .choices = {"head", "layer"}},
          &C::score_share);
    visit(Field{.name = "parametrisation",
                .help = "how a score parameter follows from its trained weight w: softplus = lower "
                        "bound + log(1 + e^w), exp = e^w, raw = w",
                .choices = {"softplus", "exp", "raw"}},
          &C::parametrisation);
    visit(Field{.name = "score_initial",
                .help = "initial values of the score's parameters in its order; empty = its own"},
          &C::score_initial);
    visit(Field{.name = "score_frozen",
                .help = "score parameters that are not trained though the score would train them"},
          &C::score_frozen);
    visit(Field{.name = "score_trained",
                .help = "score parameters that are trained though the score would not train them"},
          &C::score_trained);
  }
};

/// What is learned, and from which sequences.
struct TaskConfig {
  static constexpr std::string_view kSection = "task";

  std::string name = "icl-every";
  std::string sampler = "balanced";
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
  std::string documents = "apart";
  std::string masking = "babyberta";
  double mask_probability = 0.15;
  std::int64_t least_words = 3;
  std::string order = "shuffle";
  bool skip_bad_lines = false;

  template <class Visit>
  static void fields(Visit&& visit) {
    using C = TaskConfig;
    visit(Field{.name = "name",
                .help = "in-context quantifier every, quantifier some, or linear function; lm = "
                        "language modelling of tokens, mlm = masked language modelling of text",
                .choices = {"icl-every", "icl-some", "icl-linear", "lm", "mlm"},
                .flag = "task"},
          &C::name);
    visit(
        Field{.name = "sampler",
              .help = "inputs of the quantifier tasks: balanced = the answer flips at a uniformly "
                      "drawn position, plain = N(0,1), where every is nearly always false",
              .choices = {"balanced", "plain"},
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
                .choices = {"apart", "across"},
                .tasks = {"lm"}},
          &C::documents);
    visit(Field{.name = "masking",
                .help = "babyberta = 90 % of chosen tokens masked, 10 % random, up to 10 "
                        "patterns a sentence, drawn beforehand; roberta = 80 % masked, 10 % "
                        "random, 10 % kept, drawn anew in every pass",
                .choices = {"babyberta", "roberta"},
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
                .choices = {"shuffle", "file"},
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
  std::string precision = "float32";
  bool recompute = false;
  std::string optimizer = "adam";
  double learning_rate = 1e-4;
  std::string schedule = "constant";
  std::int64_t warmup_steps = 0;
  double final_learning_rate = 0.0;
  double weight_decay = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
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
                        "optimizer are float32",
                .choices = {"float32", "bfloat16"}},
          &C::precision);
    visit(
        Field{.name = "recompute",
              .help = "whether the backward pass computes each block again instead of keeping what "
                      "it needs: about a third more time, far less memory"},
        &C::recompute);
    visit(Field{.name = "optimizer",
                .help = "adam adds weight decay to the gradient, adamw decouples it",
                .choices = {"adam", "adamw"}},
          &C::optimizer);
    visit(Field{.name = "learning_rate", .help = "learning rate after warm-up", .above = 0},
          &C::learning_rate);
    visit(Field{.name = "schedule",
                .help = "course of the learning rate after warm-up",
                .choices = {"constant", "linear", "cosine"}},
          &C::schedule);
    visit(Field{.name = "warmup_steps", .help = "steps of linear warm-up", .least = 0},
          &C::warmup_steps);
    visit(Field{.name = "final_learning_rate",
                .help = "where linear and cosine end, as a share of learning_rate",
                .least = 0,
                .most = 1},
          &C::final_learning_rate);
    visit(Field{.name = "weight_decay",
                .help = "of weight matrices; never of norms, biases and score parameters",
                .least = 0},
          &C::weight_decay);
    visit(Field{.name = "beta1", .help = "decay of the first moment", .least = 0, .below = 1},
          &C::beta1);
    visit(Field{.name = "beta2", .help = "decay of the second moment", .least = 0, .below = 1},
          &C::beta2);
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
  }
};

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
