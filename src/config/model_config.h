// What a model is: its options, each described once.
#pragma once

#include <cstdint>
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
  Family family = Family::number;
  std::int64_t layers = 12;
  std::int64_t heads = 8;
  std::int64_t kv_heads = 0;
  std::int64_t width = 256;
  std::int64_t head_width = 0;
  bool mlp = true;
  std::int64_t mlp_width = 0;
  bool mlp_gate = false;
  Activation activation = Activation::gelu_tanh;
  Biases biases = Biases::all;
  NormKind norm = NormKind::layer;
  NormPlace norm_place = NormPlace::before;
  double norm_epsilon = 1e-5;
  bool query_key_norm = false;
  bool residual = true;
  bool causal = true;
  std::int64_t window = 0;
  std::int64_t window_first = 0;
  Positions positions = Positions::learned;
  double rotary_share = 1.0;
  double rotary_base = 10000.0;
  RotaryScaling rotary_scaling = RotaryScaling::none;
  double rotary_factor = 1.0;
  std::int64_t rotary_original = 0;
  double rotary_low = 1.0;
  double rotary_high = 4.0;
  double rotary_magnitude = 0.0;
  std::int64_t max_positions = 512;
  InputKind input = InputKind::scalar;
  std::int64_t vocabulary = 0;
  std::int64_t pad_id = 0;
  std::int64_t token_types = 0;
  bool tied = true;
  double dropout = 0.0;
  double init_std = 0.02;
  std::string score = "ssa";
  ScoreKernel score_kernel = ScoreKernel::automatic;
  ScoreShare score_share = ScoreShare::head;
  Parametrisation parametrisation = Parametrisation::softplus;
  std::vector<double> score_initial = {};
  std::vector<std::string> score_frozen = {};
  std::vector<std::string> score_trained = {};

  /// kv_heads with its 0 resolved.
  std::int64_t key_value_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  /// mlp_width with its 0 resolved.
  std::int64_t hidden_width() const { return mlp_width == 0 ? 4 * width : mlp_width; }
  /// head_width with its 0 resolved.
  std::int64_t head_dim() const { return head_width == 0 ? width / heads : head_width; }
  /// rotary_original with its 0 resolved.
  std::int64_t original_positions() const {
    return rotary_original == 0 ? max_positions : rotary_original;
  }
  /// Of a sequence's first token: encoders of RoBERTa's kind leave rows of the table to padding.
  std::int64_t first_position() const { return family == Family::roberta ? pad_id + 1 : 0; }
  /// How far back the layer sees; 0 = without limit.
  std::int64_t window_of(std::int64_t layer) const { return layer < window_first ? 0 : window; }
  bool attention_bias() const { return biases == Biases::all || biases == Biases::attention; }
  bool query_key_value_bias() const { return biases != Biases::none; }
  bool mlp_bias() const { return biases == Biases::all; }
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
    visit(Field{.name = "family",
                .help = "whose blocks they are, which says the options that go together and the "
                        "names in files; number = of sequences of numbers"},
          &C::family);
    visit(Field{.name = "layers", .help = "number of blocks", .least = 1, .most = kMostLayers},
          &C::layers);
    visit(Field{.name = "heads",
                .help = "query heads of a layer; divides width unless head_width is given",
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
    visit(Field{.name = "head_width",
                .help = "dimension of a head; 0 = width / heads",
                .least = 0,
                .most = kMostSize},
          &C::head_width);
    visit(Field{.name = "mlp", .help = "whether a block has an MLP after its attention"}, &C::mlp);
    visit(Field{.name = "mlp_width",
                .help = "hidden width of the MLP; 0 = 4 * width",
                .least = 0,
                .most = kMostSize},
          &C::mlp_width);
    visit(Field{.name = "mlp_gate",
                .help = "whether the activation of a second linear layer is the factor of the "
                        "MLP's hidden values (SwiGLU with activation silu)"},
          &C::mlp_gate);
    visit(Field{.name = "activation",
                .help = "of the MLP: gelu = with the error function, gelu-tanh = its tanh form, "
                        "relu = max(x, 0), relu-squared = max(x, 0)², silu = x/(1 + e^-x)"},
          &C::activation);
    visit(Field{.name = "biases",
                .help = "linear layers of blocks that have a bias: all of them, those of "
                        "attention, those of queries, keys and values, or none"},
          &C::biases);
    visit(
        Field{.name = "norm",
              .help = "layer = LayerNorm of attention, MLP and read-out; layer-1p = the same, its "
                      "weight stored less 1, so that weight decay pulls it to 1; rms = RMSNorm; "
                      "none = no norm"},
        &C::norm);
    visit(Field{.name = "norm_place",
                .help = "before = norm of what attention and MLP read (GPT-2), after = norm of "
                        "their output with its residual (BERT)"},
          &C::norm_place);
    visit(Field{.name = "norm_epsilon", .help = "added to a norm's variance", .above = 0},
          &C::norm_epsilon);
    visit(Field{.name = "query_key_norm",
                .help = "whether queries and keys have an RMSNorm over a head's dimension, before "
                        "rotary positions (Qwen3)"},
          &C::query_key_norm);
    visit(Field{.name = "residual", .help = "whether a block adds its input to its output"},
          &C::residual);
    visit(
        Field{.name = "causal",
              .help = "whether a token sees itself and earlier ones only, or all of its sequence"},
        &C::causal);
    visit(Field{.name = "window",
                .help = "a token sees itself and so many less 1 before it (causal = false: and "
                        "after it); 0 = without limit",
                .least = 0,
                .most = kMostSize},
          &C::window);
    visit(Field{.name = "window_first",
                .help = "the first layer, counted from 0, that has the window",
                .least = 0,
                .most = kMostLayers},
          &C::window_first);
    visit(Field{.name = "positions",
                .help = "learned = a vector per position, rope = rotary, none = no positions"},
          &C::positions);
    visit(Field{.name = "rotary_share",
                .help = "share of a head's dimensions that rotary positions turn, the first ones",
                .most = 1,
                .above = 0},
          &C::rotary_share);
    visit(Field{.name = "rotary_base",
                .help = "base of the rotary angles position·base^(-2i/D)",
                .above = 1},
          &C::rotary_base);
    visit(Field{.name = "rotary_scaling",
                .help = "how rotary angles are stretched for longer texts: linear = all divided by "
                        "rotary_factor; llama3, yarn = those that turn fewer than rotary_low "
                        "times over rotary_original positions, with a transition up to "
                        "rotary_high"},
          &C::rotary_scaling);
    visit(Field{.name = "rotary_factor",
                .help = "by which angles are divided (rotary_scaling)",
                .least = 1},
          &C::rotary_factor);
    visit(Field{.name = "rotary_original",
                .help = "positions that the model was trained with before rotary_scaling; "
                        "0 = max_positions",
                .least = 0,
                .most = kMostSize},
          &C::rotary_original);
    visit(Field{.name = "rotary_low", .help = "see rotary_scaling", .above = 0}, &C::rotary_low);
    visit(Field{.name = "rotary_high", .help = "see rotary_scaling", .above = 0}, &C::rotary_high);
    visit(Field{.name = "rotary_magnitude",
                .help = "factor of rotated queries and of keys with rotary_scaling yarn; "
                        "0 = 1 + log(rotary_factor)/10",
                .least = 0},
          &C::rotary_magnitude);
    visit(Field{.name = "max_positions",
                .help = "longest sequence in tokens",
                .least = 1,
                .most = kMostSize},
          &C::max_positions);
    visit(Field{.name = "input",
                .help = "scalar = one number a token, read in and out by linear layers; tokens = "
                        "ids, embedded, and logits over the vocabulary"},
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
                .help = "attention path: fused, composed, or auto = fused where it can"},
          &C::score_kernel);
    visit(Field{.name = "score_share",
                .help = "head = every head its own score parameters, layer = one set a layer"},
          &C::score_share);
    visit(Field{.name = "parametrisation",
                .help = "how a score parameter follows from its trained weight w: softplus = lower "
                        "bound + log(1 + e^w), exp = e^w, raw = w"},
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

/// Throws std::invalid_argument, prefixed by `origin`, for options that do not go together.
void check_model(const ModelConfig& model, const std::string& origin);

}  // namespace ssa
