#include "config/config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <set>

#include "config/toml.h"

namespace ssa {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The message that making a config of this TOML text ends with.
std::string error_of(const std::string& text) {
  try {
    make_config(toml_settings(toml::parse(text), "x.toml"), "x.toml");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

Config config_of(const std::string& text) {
  return make_config(toml_settings(toml::parse(text), "x.toml"), "x.toml");
}

TEST(Config, DefaultsArePaperValues) {
  const Config config = make_config({}, "");
  EXPECT_EQ(config.model.layers, 12);
  EXPECT_EQ(config.model.heads, 8);
  EXPECT_EQ(config.model.width, 256);
  EXPECT_EQ(config.model.key_value_heads(), 8);
  EXPECT_EQ(config.model.hidden_width(), 1024);
  EXPECT_EQ(config.train.steps, 500001);
  EXPECT_EQ(config.train.learning_rate, 1e-4);
}

TEST(Config, FieldNamesAreUniqueAcrossSections) {
  std::set<std::string> seen;
  Config config;
  Config::sections([&](auto member) {
    using Section = std::remove_cvref_t<decltype(config.*member)>;
    for (const std::string& name : field_names<Section>()) {
      EXPECT_TRUE(seen.insert(name).second) << name << " stands in two sections";
    }
  });
}

TEST(Config, EveryDefaultIsWithinItsOwnField) {
  Config config;
  Config::sections([&](auto section_member) {
    auto& section = config.*section_member;
    std::remove_cvref_t<decltype(section)>::fields([&](const Field& field, auto member) {
      const Setting setting{"section", std::string(field.name), Json(section.*member), "default"};
      EXPECT_NO_THROW(assign(section.*member, field, setting)) << field.name;
      EXPECT_FALSE(field.help.empty()) << field.name;
    });
  });
}

TEST(Config, EveryFieldSurvivesAnotherValueThroughJson) {
  // Every field differs from its default, so a field that the dump or the reader forgets shows.
  Config config;
  config.model = {.preset = "gpt2-icl-tiny",
                  .family = Family::number,
                  .layers = 2,
                  .heads = 4,
                  .kv_heads = 2,
                  .width = 32,
                  .head_width = 16,
                  .mlp = false,
                  .mlp_width = 48,
                  .mlp_gate = true,
                  .activation = Activation::silu,
                  .biases = Biases::none,
                  .norm = NormKind::rms,
                  .norm_place = NormPlace::after,
                  .norm_epsilon = 1e-6,
                  .query_key_norm = true,
                  .residual = false,
                  .causal = false,
                  .window = 9,
                  .window_first = 1,
                  .positions = Positions::rope,
                  .rotary_share = 0.5,
                  .rotary_base = 500.0,
                  .rotary_scaling = RotaryScaling::yarn,
                  .rotary_factor = 2.0,
                  .rotary_original = 50,
                  .rotary_low = 2.0,
                  .rotary_high = 30.0,
                  .rotary_magnitude = 1.25,
                  .max_positions = 100,
                  .input = InputKind::scalar,
                  .vocabulary = 50,
                  .pad_id = 3,
                  .token_types = 4,
                  .tied = false,
                  .dropout = 0.1,
                  .init_std = 0.5,
                  .score = "ssa",
                  .score_kernel = ScoreKernel::fused,
                  .score_share = ScoreShare::layer,
                  .parametrisation = Parametrisation::exp,
                  .score_initial = {1.75, 2.5},
                  .score_frozen = {"n"},
                  .score_trained = {"b"}};
  config.train = {.steps = 10,
                  .batch = 3,
                  .accumulation = 2,
                  .precision = Precision::bfloat16,
                  .recompute = true,
                  .optimizer = OptimizerKind::muon,
                  .learning_rate = 0.25,
                  .schedule = ScheduleKind::cosine,
                  .warmup_steps = 4,
                  .final_learning_rate = 0.5,
                  .score_learning_rate = 0.125,
                  .score_landing = {2.0, 0.5},
                  .score_landing_steps = 6,
                  .weight_decay = 0.1,
                  .beta1 = 0.8,
                  .beta2 = 0.95,
                  .momentum = 0.9,
                  .epsilon = 1e-5,
                  .bias_correction = false,
                  .clip = 1.5,
                  .seed = 9,
                  .log_interval = 11,
                  .eval_interval = 12,
                  .eval_batches = 13,
                  .checkpoint_interval = 14,
                  .keep_checkpoints = 15,
                  .threads = 1,
                  .device = "cuda:2"};
  const TaskConfig tasks[] = {{.name = TaskName::icl_linear,
                               .sampler = IclSampler::plain,
                               .points_start = 5,
                               .points_end = 15,
                               .points_step = 3,
                               .points_interval = 7},
                              {.name = TaskName::lm,
                               .tokenizer = "vocab.json",
                               .merges = "merges.txt",
                               .tokens = {"a"},
                               .validation_tokens = {"b"},
                               .length = 9,
                               .documents = Documents::across,
                               .order = TextOrder::file},
                              {.name = TaskName::mlm,
                               .tokenizer = "tokenizer.json",
                               .text = {"a.txt"},
                               .validation_text = {"b.txt"},
                               .masking = Masking::roberta,
                               .mask_probability = 0.2,
                               .least_words = 4,
                               .order = TextOrder::file,
                               .skip_bad_lines = true}};
  const Json defaults = to_json(Config{});
  std::set<std::string> same;
  for (const auto& [section, fields] : defaults.items()) {
    for (const auto& [key, value] : fields.items()) same.insert(section + "." + key);
  }
  for (const TaskConfig& task : tasks) {
    config.task = task;
    const Json dumped = to_json(config);
    EXPECT_EQ(to_json(config_from_json(Json::parse(dumped.dump()), "run.json")), dumped);
    for (const auto& [section, fields] : dumped.items()) {
      for (const auto& [key, value] : fields.items()) {
        if (value != defaults[section][key]) same.erase(section + "." + key);
      }
    }
  }
  // They have no other value that goes with the rest.
  EXPECT_EQ(same, (std::set<std::string>{"model.family", "model.input", "model.score"}));
}

TEST(Config, FlagsGoOverTomlOverPreset) {
  const std::string toml = "[model]\nwidth = 32\npreset = \"gpt2-icl-tiny\"";
  EXPECT_EQ(config_of(toml).model.width, 32);
  EXPECT_EQ(config_of(toml).model.layers, 3);
  Settings settings = toml_settings(toml::parse(toml), "x.toml");
  settings.push_back({"model", "width", 16, "--width"});
  settings.push_back({"model", "preset", "attention-only-small", "--preset"});
  const Config config = make_config(settings, "x.toml");
  EXPECT_EQ(config.model.width, 16);
  EXPECT_EQ(config.model.layers, 6);
  EXPECT_FALSE(config.model.mlp);
  EXPECT_EQ(config.model.preset, "attention-only-small");
}

TEST(Config, EveryPresetIsValid) {
  for (const Preset& preset : presets()) {
    const Config config =
        make_config({{"model", "preset", std::string(preset.name), "test"}}, "test");
    for (const auto& [key, value] : preset.values.items()) {
      EXPECT_EQ(to_json(config)["model"][key], value) << preset.name;
    }
  }
}

TEST(Config, BabyBertaIsThePublishedModel) {
  // The figures of its saved configuration (github.com/phueb/BabyBERTa).
  const ModelConfig model = config_of("[model]\npreset = \"babyberta\"").model;
  EXPECT_EQ(model.layers, 8);
  EXPECT_EQ(model.heads, 8);
  EXPECT_EQ(model.width, 256);
  EXPECT_EQ(model.hidden_width(), 1024);
  EXPECT_EQ(model.vocabulary, 8192);
  EXPECT_EQ(model.max_positions + model.pad_id + 1, 130);
  EXPECT_EQ(model.pad_id, 1);
  EXPECT_EQ(model.token_types, 2);
  EXPECT_EQ(model.norm_epsilon, 1e-5);
  EXPECT_EQ(model.init_std, 0.02);
  EXPECT_EQ(model.dropout, 0.1);
  EXPECT_EQ(model.activation, Activation::gelu);
  EXPECT_EQ(model.norm_place, NormPlace::after);
  EXPECT_EQ(model.family, Family::roberta);
  EXPECT_FALSE(model.causal);
}

TEST(Config, ModelsOfTokensNeedAVocabularyAndTheFormThatIsBuilt) {
  const std::string tokens = "[model]\npreset = \"babyberta-tiny\"\n";
  EXPECT_EQ(error_of(tokens), "");
  EXPECT_EQ(error_of(tokens + "vocabulary = 0"),
            "x.toml: model.input = \"tokens\" needs model.vocabulary, the number of token ids");
  EXPECT_EQ(error_of(tokens + "pad_id = 128"),
            "x.toml: model.pad_id = 128 is not below model.vocabulary = 128");
  EXPECT_EQ(error_of(tokens + "positions = \"rope\""),
            "x.toml: model.positions = \"rope\" is not built for model.family = \"roberta\", which "
            "needs \"learned\"");
  EXPECT_EQ(error_of(tokens + "norm_place = \"before\""),
            "x.toml: model.norm_place = \"before\" is not built for model.family = \"roberta\", "
            "which needs \"after\"");
  const std::string decoder = "[model]\npreset = \"nemotron-tiny\"\n";
  EXPECT_EQ(error_of(decoder), "");
  EXPECT_EQ(error_of(decoder + "token_types = 2"),
            "x.toml: model.token_types = 2 is not built for model.family = \"nemotron\", which "
            "needs 0");
  EXPECT_EQ(error_of(decoder + "positions = \"learned\""),
            "x.toml: model.positions = \"learned\" is not built for model.family = \"nemotron\", "
            "which has \"rope\" or \"none\"");
}

TEST(Config, RunsFromBeforeTheFamilyWasWrittenDownHaveThatOfTheirOptions) {
  const auto family_of = [](const char* preset, const char* key, const Json& value) {
    Json run = to_json(config_of(std::string("[model]\npreset = \"") + preset + "\""));
    run["model"].erase("family");
    run["model"].erase("biases");
    run["model"]["linear_bias"] = true;
    run["model"][key] = value;
    return config_from_json(run, "run.json").model.family;
  };
  EXPECT_EQ(family_of("gpt2-icl-tiny", "positions", "rope"), Family::number);
  EXPECT_EQ(family_of("gpt2-tiny", "tied", false), Family::gpt2);
  EXPECT_EQ(family_of("gpt2-tiny", "positions", "rope"), Family::nemotron);  // by its files' names
  EXPECT_EQ(family_of("nemotron-tiny", "tied", false), Family::nemotron);
  EXPECT_EQ(family_of("babyberta-tiny", "causal", true), Family::roberta);
}

TEST(Config, TheOlderNameOfBiasesIsRead) {
  EXPECT_EQ(config_of("[model]\nlinear_bias = false").model.biases, Biases::none);
  EXPECT_EQ(config_of("[model]\nlinear_bias = true").model.biases, Biases::all);
}

TEST(Config, ScoresLandOnValuesThatTheyMayHave) {
  const std::string train = "[train]\nscore_landing = [4.0, 0.25]\nscore_landing_steps = 10\n";
  EXPECT_EQ(error_of(train), "");
  EXPECT_EQ(error_of("[train]\nscore_landing = [4.0, 0.25]"),
            "x.toml: train.score_landing and train.score_landing_steps need each other");
  EXPECT_EQ(error_of("[train]\nscore_landing = [4.0]\nscore_landing_steps = 10"),
            "x.toml: train.score_landing has 1 value, but ssa has 2 parameters");
  EXPECT_EQ(error_of("[train]\nscore_landing = [1.0, 0.25]\nscore_landing_steps = 10"),
            "x.toml: train.score_landing: n = 1 of ssa must be above 1");
}

TEST(Config, HeadsMayBeWiderThanTheirShareOfTheWidth) {
  const std::string llama = "[model]\npreset = \"llama-tiny\"\n";
  EXPECT_EQ(config_of(llama).model.head_dim(), 8);
  EXPECT_EQ(config_of(llama + "head_width = 16").model.head_dim(), 16);
  EXPECT_EQ(error_of(llama + "heads = 6\nkv_heads = 3\nhead_width = 8"), "");
  EXPECT_EQ(error_of(llama + "heads = 6\nkv_heads = 3"),
            "x.toml: model.width = 32 is not a multiple of model.heads = 6");
}

TEST(Config, NestedDottedAndQuotedTomlKeysAreTheSame) {
  for (const char* text : {"[model]\nlayers = 3", "model.layers = 3", "\"model.layers\" = 3"}) {
    EXPECT_EQ(config_of(text).model.layers, 3) << text;
  }
  EXPECT_EQ(make_config(settings_of({{"model.layers", 3}}, "cell"), "cell").model.layers, 3);
}

TEST(Config, ErrorsNameOriginKeyValueAndWhatIsRight) {
  EXPECT_EQ(
      error_of("[model]\nlayers = \"three\""),
      "x.toml:2: model.layers = \"three\": expected an integer of at least 1 and of at most 10000");
  EXPECT_EQ(error_of("[model]\nlayers = 0"),
            "x.toml:2: model.layers = 0: expected an integer of at least 1 and of at most 10000");
  EXPECT_EQ(error_of("[model]\nlayers = 2.0"),
            "x.toml:2: model.layers = 2.0: expected an integer of at least 1 and of at most 10000");
  EXPECT_EQ(error_of("[train]\nsteps = 0"),
            "x.toml:2: train.steps = 0: expected an integer of at least 1");
  EXPECT_EQ(error_of("[model]\ndropout = 1"),
            "x.toml:2: model.dropout = 1: expected a finite number of at least 0 and below 1");
  EXPECT_EQ(error_of("[model]\nmlp = 1"), "x.toml:2: model.mlp = 1: expected true or false");
  EXPECT_EQ(error_of("[task]\n\nsampler = \"balance\""),
            "x.toml:3: task.sampler = \"balance\": expected one of balanced, plain; did you mean "
            "\"balanced\"?");
  EXPECT_EQ(
      error_of("[model]\nscore_initial = [1.5, -1]"),
      "x.toml: model.score_initial: b = -1 of ssa must be above 0 with parametrisation softplus");
  EXPECT_EQ(error_of("[model]\nscore = \"cosformer\"\nscore_trained = [\"M\"]"),
            "x.toml: model.score_trained: M of cosformer is fixed and cannot be trained");
  EXPECT_EQ(
      error_of("[model]\nscore = \"cosformer\"\nscore_initial = [100]"),
      "x.toml: model.score_initial: M = 100 of cosformer must be at least model.max_positions = "
      "512");
  EXPECT_EQ(error_of("[model]\nscore = \"sink\"\nscore_initial = [-3]"), "");
  EXPECT_EQ(error_of("[model]\nscore_frozen = \"n\""),
            "x.toml:2: model.score_frozen = \"n\": expected a list of strings");
}

TEST(Config, UnknownNamesAreErrorsWithTheNearestKnownOne) {
  EXPECT_EQ(error_of("[model]\nlayer = 3"),
            "x.toml:2: unknown key model.layer; did you mean model.layers?");
  EXPECT_EQ(error_of("[train]\nwidth = 3"),
            "x.toml:2: unknown key train.width; did you mean model.width?");
  EXPECT_EQ(error_of("[modle]\nlayers = 3"),
            "x.toml:2: unknown section [modle]; did you mean [model]?");
  EXPECT_EQ(error_of("layers = 3"), "x.toml:1: layers stands outside a [section]");
}

TEST(Config, NumbersThatAreNotFiniteAreRefused) {
  for (const char* number : {"nan", "inf", "-inf"}) {
    EXPECT_PRED2(contains, error_of(std::string("[train]\nlearning_rate = ") + number),
                 fmt::format("train.learning_rate = {}: expected a finite number above 0", number));
    EXPECT_PRED2(contains, error_of(std::string("[model]\nscore_initial = [") + number + "]"),
                 "expected a list of finite numbers");
  }
}

TEST(Config, IntegersBeyondInt64AreRefused) {
  Setting setting{"train", "seed", std::numeric_limits<std::uint64_t>::max(), "run.json"};
  EXPECT_THROW(make_config({setting}, "run.json"), std::invalid_argument);
}

TEST(Config, ValuesThatDoNotGoTogetherAreRefused) {
  EXPECT_EQ(error_of("[model]\nwidth = 10\nheads = 4"),
            "x.toml: model.width = 10 is not a multiple of model.heads = 4");
  EXPECT_EQ(error_of("[model]\nkv_heads = 3"),
            "x.toml: model.heads = 8 is not a multiple of model.kv_heads = 3");
  EXPECT_EQ(error_of("[model]\nwidth = 24\npositions = \"rope\""),
            "x.toml: model.positions = \"rope\" turns pairs of dimensions, but of a head's "
            "model.width / model.heads = 3 it would turn 3 (model.rotary_share = 1)");
  EXPECT_EQ(error_of("[task]\npoints_start = 50"),
            "x.toml: task.points_start = 50 is above task.points_end = 41");
  EXPECT_EQ(
      error_of("[model]\nmax_positions = 80"),
      "x.toml: task.points_end = 41 makes sequences of 82 tokens, but model.max_positions = 80");
  EXPECT_EQ(error_of("[model]\nmax_positions = 80\n[task]\nname = \"mlm\""), "");
  EXPECT_EQ(error_of("[task]\nmasking = \"roberta\""),
            "x.toml: task.masking belongs to tasks of mlm, but task.name = \"icl-every\"");
  EXPECT_EQ(error_of("[task]\nname = \"lm\"\npoints_end = 9"),
            "x.toml: task.points_end belongs to tasks of icl, but task.name = \"lm\"");
  for (const char* task : {"lm", "mlm"}) {
    EXPECT_EQ(error_of(fmt::format("[task]\nname = \"{}\"\norder = \"file\"", task)), "");
  }
  EXPECT_EQ(error_of("[model]\nscore = \"cosformer\"\ndropout = 0.1"),
            "x.toml: model.dropout = 0.1: cosformer has no attention weights to drop out");
  EXPECT_EQ(error_of("[model]\nscore = \"sparsemax\"\nscore_kernel = \"fused\""),
            "x.toml: model.score_kernel = \"fused\": sparsemax has no fused kernel");
  EXPECT_EQ(error_of("[train]\nsteps = 5\nwarmup_steps = 6"),
            "x.toml: train.warmup_steps = 6 is above train.steps = 5");
}

TEST(Config, ScoreParametersMustFitTheScore) {
  EXPECT_EQ(error_of("[model]\nscore_initial = [1.5]"),
            "x.toml: model.score_initial has 1 value, but ssa has 2 parameters");
  EXPECT_EQ(
      error_of("[model]\nscore_initial = [1.0, 0.8]"),
      "x.toml: model.score_initial: n = 1 of ssa must be above 1 with parametrisation softplus");
  EXPECT_EQ(error_of("[model]\nscore_initial = [0.5, 0.8]\nparametrisation = \"exp\""), "");
  EXPECT_EQ(error_of("[model]\nscore_frozen = [\"c\"]"),
            "x.toml: model.score_frozen: ssa has no parameter \"c\"");
  EXPECT_EQ(error_of("[model]\nscore_frozen = [\"n\"]\nscore_trained = [\"n\"]"),
            "x.toml: \"n\" stands in model.score_frozen and in model.score_trained");
}

TEST(Config, TrainsFollowsScoreThenLists) {
  const ScoreInfo& ssa_score = find_score("ssa");
  const ScoreInfo& temperature = find_score("temperature");
  ModelConfig model;
  EXPECT_TRUE(model.trains(ssa_score.params[0]));
  EXPECT_FALSE(model.trains(temperature.params[0]));
  model.score_frozen = {"n"};
  model.score_trained = {"tau"};
  EXPECT_FALSE(model.trains(ssa_score.params[0]));
  EXPECT_TRUE(model.trains(ssa_score.params[1]));
  EXPECT_TRUE(model.trains(temperature.params[0]));
}

TEST(Config, BrokenAndMissingFilesAreNamed) {
  const auto error_reading = [](const std::filesystem::path& file) -> std::string {
    try {
      load_config(file);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_reading("/nowhere/x.toml"), "/nowhere/x.toml: no such file");
  EXPECT_EQ(error_reading("/"), "/: not a file");
  const auto file = std::filesystem::path(testing::TempDir()) / "broken.toml";
  std::ofstream(file) << "[model]\nlayers = \n";
  EXPECT_PRED2(contains, error_reading(file), "broken.toml:2: not valid TOML: ");
  std::ofstream(file) << "[model]\nlayers = 1979-05-27\n";
  EXPECT_THROW(load_config(file), std::invalid_argument);
  std::filesystem::remove(file);
}

TEST(Flags, TextBecomesAValueOfTheFieldsType) {
  EXPECT_EQ(parse_text(std::int64_t{}, "12"), Json(12));
  EXPECT_EQ(parse_text(std::int64_t{}, "12x"), Json("12x"));
  EXPECT_EQ(parse_text(0.0, "1e-4"), Json(1e-4));
  EXPECT_EQ(parse_text(true, "false"), Json(false));
  EXPECT_EQ(parse_text(true, "yes"), Json("yes"));
  EXPECT_EQ(parse_text(std::string(), "12"), Json("12"));
  EXPECT_EQ(parse_text(std::vector<double>(), "1.5,0.8"), Json({1.5, 0.8}));
  EXPECT_EQ(parse_text(std::vector<double>(), ""), Json::array());
  EXPECT_EQ(parse_text(std::vector<double>(), "1.5,"), Json({1.5, ""}));
  EXPECT_EQ(parse_text(std::vector<std::string>(), "n,b"), Json({"n", "b"}));
  EXPECT_EQ(parse_text(std::vector<std::int64_t>(), "1,2.5"), Json({1, "2.5"}));
}

TEST(Flags, ValuesBecomeTextThatParsesToThem) {
  const auto survives = [](auto value) {
    EXPECT_EQ(parse_text(value, flag_text(Json(value))), Json(value)) << Json(value);
  };
  survives(std::int64_t{-3});
  survives(1e-4);
  survives(std::string("a b"));
  survives(std::vector<std::int64_t>{256, 512});
  survives(std::vector<double>{-7.5, 1e30});
  survives(std::vector<std::string>{"n", "b"});
  survives(IclSampler::plain);
}

TEST(Config, ANoneIsNullAndAnEmptyText) {
  std::optional<IclSampler> sampler = IclSampler::plain;
  const Field field{.name = "sampler", .help = ""};
  assign(sampler, field, {"s", "sampler", Json(), "here"});
  EXPECT_FALSE(sampler);
  EXPECT_EQ(Json(sampler), Json());
  EXPECT_EQ(flag_text(Json(sampler)), "");
  assign(sampler, field, {"s", "sampler", "balanced", "here"});
  EXPECT_EQ(Json(sampler), "balanced");
  EXPECT_THROW(assign(sampler, field, {"s", "sampler", "b", "here"}), std::invalid_argument);
}

}  // namespace
}  // namespace ssa
