// The options of the evaluations, each described once: flags of `ssa eval`, [evaluation] of
// experiment files, their help and checks, and "options" of evals/SUITE.json come from these lists.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "config/model_config.h"
#include "text/text_documents.h"

namespace ssa {

/// What is done with a model. Suites of one kind have the same options.
enum class SuiteKind { icl_shift, perplexity, choices, minimal_pairs };

/// Points of every shift but `length`.
inline constexpr std::int64_t kIclPoints = 40;

struct IclShiftOptions {
  static constexpr std::string_view kSection = "evaluation";
  static constexpr bool is_of(SuiteKind kind) { return kind == SuiteKind::icl_shift; }

  std::int64_t sequences = 6400;  ///< the paper's 100 functions × batch of 64
  std::int64_t data_seed = 1234;
  ShiftGrid grid = ShiftGrid::reduced;
  std::optional<IclSampler> sampler = {};
  std::int64_t huge_position = 11;
  std::vector<std::int64_t> length = {};  ///< of lists, those that are empty are the grid's
  std::vector<double> sigma = {}, coefficients = {}, huge = {};

  template <class Visit>
  static void fields(Visit&& visit) {
    using C = IclShiftOptions;
    visit(Field{.name = "sequences", .help = "sequences of every shift", .least = 1, .most = 1e9},
          &C::sequences);
    visit(Field{.name = "data_seed",
                .help = "seed of the sequences; in an experiment a cell's own seed is added",
                .least = 0,
                .most = 1e15},
          &C::data_seed);
    visit(Field{.name = "grid", .help = "values of the shifts"}, &C::grid);
    visit(Field{.name = "sampler", .help = "inputs of the quantifiers; not given: as trained"},
          &C::sampler);
    visit(Field{.name = "huge_position",
                .help = "position of the huge value, from 1",
                .least = 1,
                .most = static_cast<double>(kIclPoints)},
          &C::huge_position);
    visit(Field{.name = "length",
                .help = "points of longer sequences, instead of the grid's",
                .least = 1,
                .most = 1e6},
          &C::length);
    visit(Field{.name = "sigma",
                .help = "standard deviations of the inputs, instead of the grid's",
                .above = 0},
          &C::sigma);
    visit(Field{.name = "coefficients",
                .help = "standard deviations of a and b (icl-linear), also of `grid` and `both`, "
                        "instead of the grid's",
                .above = 0},
          &C::coefficients);
    visit(Field{.name = "huge", .help = "planted values other than 0, instead of the grid's"},
          &C::huge);
  }
};

/// Of every suite for models of text.
struct LanguageOptions {
  static constexpr std::string_view kSection = "evaluation";
  static constexpr bool is_of(SuiteKind kind) { return kind != SuiteKind::icl_shift; }

  Precision precision = Precision::float32;
  std::string end_token = "";
  SpecialTokens special_tokens = SpecialTokens::text;

  template <class Visit>
  static void fields(Visit&& visit) {
    using C = LanguageOptions;
    visit(Field{.name = "precision", .help = "of matrix products and attention"}, &C::precision);
    visit(Field{.name = "end_token",
                .help = "of decoders: the token that ends a document and stands before each text; "
                        "not given: <|endoftext|> or </s>"},
          &C::end_token);
    visit(Field{.name = "special_tokens",
                .help = "special tokens that are written in a text (<s>, <|endoftext|>): text, or "
                        "found and encoded as what they are, as lm-evaluation-harness does"},
          &C::special_tokens);
  }
};

struct PerplexityOptions {
  static constexpr std::string_view kSection = "evaluation";
  static constexpr bool is_of(SuiteKind kind) { return kind == SuiteKind::perplexity; }

  std::vector<std::string> texts = {};
  std::string field = DocumentOptions().field;
  std::string document_line = DocumentOptions().document_line;
  bool skip_bad_lines = DocumentOptions().skip_bad_lines;
  std::vector<std::int64_t> lengths = {};
  std::int64_t stride = 0;

  DocumentOptions documents() const { return {field, document_line, skip_bad_lines}; }

  template <class Visit>
  static void fields(Visit&& visit) {
    using C = PerplexityOptions;
    visit(Field{.name = "texts",
                .help = "files as for `ssa data tokenize`; also looked for in the folder SSA_DATA; "
                        "not given: books, web samples and Wikipedia articles there"},
          &C::texts);
    visit(Field{.name = "field", .help = "of .jsonl and .parquet: the text"}, &C::field);
    visit(Field{.name = "document_line", .help = "of .txt: the line that ends a document"},
          &C::document_line);
    visit(Field{.name = "skip_bad_lines",
                .help = "leave out and count what is no UTF-8, no JSON or without the field"},
          &C::skip_bad_lines);
    visit(Field{.name = "lengths",
                .help = "tokens that the model reads at a time; more than it was trained on with "
                        "rotary positions or none; not given: model.max_positions",
                .least = 1,
                .most = kMostSize},
          &C::lengths);
    visit(Field{.name = "stride",
                .help = "tokens by which it goes on, the others being context; 0 = the length",
                .least = 0},
          &C::stride);
  }
};

struct ChoiceOptions {
  static constexpr std::string_view kSection = "evaluation";
  static constexpr bool is_of(SuiteKind kind) { return kind == SuiteKind::choices; }

  std::vector<std::string> tasks = {"configs/zero-shot"};
  std::int64_t items = 0;
  std::string choices = "";

  template <class Visit>
  static void fields(Visit&& visit) {
    using C = ChoiceOptions;
    visit(Field{.name = "tasks",
                .help = "task files, or folders of them, of which those are run whose data is "
                        "there"},
          &C::tasks);
    visit(Field{.name = "items", .help = "first items of each task; 0 = all", .least = 0},
          &C::items);
    visit(Field{.name = "choices",
                .help = "file for the log-probability of every choice, tab-separated",
                .writes = true},
          &C::choices);
  }
};

struct PairOptions {
  static constexpr std::string_view kSection = "evaluation";
  static constexpr bool is_of(SuiteKind kind) { return kind == SuiteKind::minimal_pairs; }

  std::string data = "";
  std::string sentences = "";

  template <class Visit>
  static void fields(Visit&& visit) {
    using C = PairOptions;
    visit(Field{.name = "data",
                .help = "folder of the sentences; a path is also looked for in the folder "
                        "SSA_DATA; not given: zorro/sentences, tasks/blimp"},
          &C::data);
    visit(Field{.name = "sentences",
                .help = "file for the score of every sentence, tab-separated",
                .writes = true},
          &C::sentences);
  }
};

/// Every option has a name of its own.
struct EvaluationOptions {
  static constexpr std::string_view kSection = "evaluation";

  IclShiftOptions icl_shift;
  LanguageOptions language;
  PerplexityOptions perplexity;
  ChoiceOptions choices;
  PairOptions pairs;

  /// visit(member of EvaluationOptions) for each section.
  template <class Visit>
  static void sections(Visit&& visit) {
    visit(&EvaluationOptions::icl_shift);
    visit(&EvaluationOptions::perplexity);
    visit(&EvaluationOptions::choices);
    visit(&EvaluationOptions::pairs);
    visit(&EvaluationOptions::language);
  }
};

/// Whether suites of that kind have the option.
bool takes(SuiteKind kind, std::string_view option);

/// Sets the option that setting.key names; a list may also be given as a flag's text ("256,512").
/// Throws std::invalid_argument naming origin, option, value and what would be right.
void set_option(EvaluationOptions& options, const Setting& setting);

/// The options of an experiment or of a result, {"sequences": 640, …}, each as its field writes it.
/// Throws as set_option, and for files to write: these are a command's alone.
Json checked_options(const Json& given, const std::string& origin);

/// Every option of that kind of suite.
Json options_json(const EvaluationOptions& options, SuiteKind kind);

/// {"--sequences", "640", …}: the flags of `ssa eval` for those options that the kind has.
std::vector<std::string> option_flags(const Json& options, SuiteKind kind);

}  // namespace ssa
