#include "experiment/experiment.h"

#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>
#include <string>

namespace ssa {
namespace {

constexpr const char* kMinimal = R"([experiment]
name = "tiny"
seeds = 2
[model]
preset = "gpt2-icl-tiny"
[train]
steps = 10
[[variant]]
name = "full"
[[variant]]
name = "bare"
seeds = 1
scores = ["softmax", "frozen"]
model.preset = "attention-only-tiny"
task.name = "icl-linear"
[scores.frozen]
model.score = "ssa"
model.score_frozen = ["n", "b"]
)";

class ExperimentFile : public testing::Test {
 protected:
  Experiment load(const std::string& text) {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    file_ = std::filesystem::path(testing::TempDir()) / (std::string(test->name()) + ".toml");
    std::ofstream(file_) << text;
    return load_experiment(file_);
  }

  /// What loading `text` says.
  std::string error(const std::string& text) {
    try {
      load(text);
    } catch (const std::exception& failure) {
      return failure.what();
    }
    return "";
  }

  /// kMinimal with `from` replaced.
  static std::string changed(const std::string& from, const std::string& to) {
    std::string text = kMinimal;
    const std::size_t at = text.find(from);
    if (at == std::string::npos) throw std::logic_error("not in the text: " + from);
    return text.replace(at, from.size(), to);
  }

  std::filesystem::path file_;
};

TEST_F(ExperimentFile, GivesCellsSeedsOutermost) {
  std::vector<std::string> names;
  for (const Cell& cell : load(kMinimal).cells) names.push_back(cell.name());
  EXPECT_EQ(names, (std::vector<std::string>{"full softmax seed 1", "full ssa seed 1",
                                             "bare softmax seed 1", "bare frozen seed 1",
                                             "full softmax seed 2", "full ssa seed 2"}));
}

TEST_F(ExperimentFile, AStarIsEveryScoringFunction) {
  const Experiment experiment =
      load(changed("scores = [\"softmax\", \"frozen\"]", "scores = [\"*\", \"frozen\"]"));
  std::vector<std::string> labels;
  for (const Cell& cell : experiment.cells) {
    if (cell.variant == "bare") labels.push_back(cell.score);
  }
  std::vector<std::string> expected = score_names();
  expected.emplace_back("frozen");
  EXPECT_EQ(labels, expected);
}

TEST_F(ExperimentFile, VariantsAndScoresGoOverTheBase) {
  const Experiment experiment = load(kMinimal);
  const Cell& full = experiment.cells[0];
  EXPECT_TRUE(full.config.model.mlp);
  EXPECT_EQ(full.config.task.name, "icl-every");
  EXPECT_EQ(full.config.model.score, "softmax");
  EXPECT_EQ(full.config.train.steps, 10);
  const Cell& bare = experiment.cells[3];
  EXPECT_FALSE(bare.config.model.mlp);
  EXPECT_EQ(bare.config.task.name, "icl-linear");
  EXPECT_EQ(bare.config.model.score, "ssa");
  EXPECT_EQ(bare.config.model.score_frozen, (std::vector<std::string>{"n", "b"}));
  EXPECT_EQ(bare.run(), "runs/bare/frozen/seed-1");
  EXPECT_EQ(experiment.cells[5].config.train.seed, 2);
}

TEST_F(ExperimentFile, SeedsBeginWhereItSays) {
  const Experiment experiment = load(changed("seeds = 2", "seeds = 2\nfirst_seed = 101"));
  ASSERT_EQ(experiment.cells.size(), 6);
  EXPECT_EQ(experiment.cells.front().name(), "full softmax seed 101");
  EXPECT_EQ(experiment.cells.back().config.train.seed, 102);
}

TEST_F(ExperimentFile, EverySeedHasItsOwnTestSequences) {
  const Experiment experiment = load(kMinimal);
  const auto seed_of = [&](const Experiment& one, std::size_t cell) {
    return evaluation_options(one, one.cells[cell]).at("data_seed").get<std::int64_t>();
  };
  EXPECT_EQ(seed_of(experiment, 0), seed_of(experiment, 1)) << "softmax and ssa of one seed";
  EXPECT_NE(seed_of(experiment, 0), seed_of(experiment, 4)) << "two seeds";
  const Experiment given = load(changed("[train]", "[evaluation]\ndata_seed = 70\n[train]"));
  EXPECT_EQ(seed_of(given, 4), 72);
}

constexpr const char* kEndpoint = R"(
[[endpoint]]
name = "shifts"
variant = "full"
metrics = ["sigma=5/40/wrong", "sigma=40/40/wrong"]
)";

TEST_F(ExperimentFile, NamesEndpoints) {
  const Experiment experiment = load(kMinimal + std::string(kEndpoint));
  ASSERT_EQ(experiment.endpoints.size(), 1);
  EXPECT_EQ(experiment.endpoints[0].evaluation, "icl-shift");
  EXPECT_EQ(experiment.endpoints[0].scores, (std::vector<std::string>{"ssa"}));
  EXPECT_EQ(experiment.cells.size(), 6);

  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string text = kMinimal + std::string(kEndpoint);
    return error(text.replace(text.rfind(from), from.size(), to));
  };
  EXPECT_NE(refused("variant = \"full\"", "variant = \"ful\"").find("did you mean full?"),
            std::string::npos);
  EXPECT_NE(refused("variant = \"full\"", "variant = \"bare\"")
                .find("\"ssa\" is not compared with softmax in bare"),
            std::string::npos);
  EXPECT_NE(refused("sigma=40/40/wrong", "none/last-layer/entropy").find("on one scale"),
            std::string::npos);
  EXPECT_NE(refused("sigma=40/40/wrong", "sigma=40/40/relative-error").find("on one scale"),
            std::string::npos);
  EXPECT_NE(refused("name = \"shifts\"", "nam = \"shifts\"").find("did you mean endpoint.name?"),
            std::string::npos);
  EXPECT_NE(refused("[[endpoint]]", "[endpoint]").find("write endpoints as [[endpoint]]"),
            std::string::npos);
}

TEST_F(ExperimentFile, AMarginIsAFactorAboveOne) {
  EXPECT_EQ(load(changed("seeds = 2", "seeds = 2\nmargin = 1.25")).settings.margin, 1.25);
  EXPECT_NE(error(changed("seeds = 2", "seeds = 2\nmargin = 0.8")).find("a factor above 1"),
            std::string::npos);
}

TEST_F(ExperimentFile, RefusesAScoreForTheWholeModel) {
  EXPECT_NE(
      error(changed("preset = \"gpt2-icl-tiny\"", "preset = \"gpt2-icl-tiny\"\nscore = \"ssa\""))
          .find(".toml:6: model.score: scores of an experiment stand in experiment.scores"),
      std::string::npos);
}

TEST_F(ExperimentFile, NamesWhatIsWrongAndWhere) {
  const std::string file = testing::TempDir() + "NamesWhatIsWrongAndWhere.toml";
  const auto expect = [&](const std::string& text, const std::string& message) {
    EXPECT_NE(error(text).find(file), std::string::npos) << error(text);
    EXPECT_NE(error(text).find(message), std::string::npos) << error(text);
  };
  expect(changed("seeds = 2", "seed = 2"),
         ":3: unknown key experiment.seed; did you mean experiment.seeds?");
  expect(changed("seeds = 2", "seeds = 0"),
         ":3: experiment.seeds = 0: expected an integer of at least 1");
  expect(changed("seeds = 2", "scores = [\"sofmax\"]"),
         "unknown score \"sofmax\"; did you mean \"softmax\"?");
  expect(changed("seeds = 2", "scores = [\"ssa\", \"ssa\"]"),
         "experiment.scores names \"ssa\" twice");
  expect(changed("seeds = 2", "evaluations = [\"icl-shifts\"]"), "did you mean \"icl-shift\"?");
  expect(changed("[train]", "[evaluation]\nprecision = \"bfloat16\"\n[train]"),
         "evaluation.precision does not belong to icl-shift");
  expect(changed("steps = 10", "steps = 0"), ":7: train.steps = 0");
  expect(changed("steps = 10", "seed = 3"), ":7: train.seed: the cells are numbered");
  expect(changed("[train]", "[trian]"), "unknown section [trian]; did you mean [train]?");
  expect(changed("name = \"bare\"", "name = \"full\""), "[[variant]] names \"full\" twice");
  expect(changed("name = \"bare\"", "name = \"a/b\""), ":10: variant name \"a/b\"");
  expect(changed("name = \"bare\"", "nmae = \"bare\""),
         ":11: unknown key variant.nmae; did you mean variant.name?");
  expect(changed("name = \"tiny\"", "name = \"\""), "experiment.name \"\"");
  expect(changed("task.name = \"icl-linear\"", "task.nam = \"icl-linear\""),
         ":15: unknown key task.nam; did you mean task.name?");
  expect(changed("[scores.frozen]", "[scores.frosen]"),
         "[scores.frosen] is used by no variant; did you mean \"frozen\"?");
  expect(changed("[\"n\", \"b\"]", "[\"m\"]"), "variant bare, score frozen");
  expect(changed("[experiment]", "[experment]"), "there is no [experiment]");
  expect("[experiment]\nname = \"x\"\n", "there is no [[variant]]");
  expect("[experiment]\nname = \"x\"\n[variant]\nname = \"a\"\n",
         ":3: write variants as [[variant]]");
}

TEST(FirstDifference, NamesTheFieldAndBothValues) {
  const Json before = {{"train", {{"steps", 1000}, {"threads", 1}}}, {"task", {{"name", "a"}}}};
  Json now = before;
  EXPECT_EQ(first_difference(before, now), "");
  now["train"]["threads"] = 2;
  EXPECT_EQ(first_difference(before, now), "");
  now["train"]["steps"] = 2000;
  EXPECT_EQ(first_difference(before, now), "train.steps = 1000, now 2000");
  now["train"].erase("steps");
  EXPECT_EQ(first_difference(before, now), "train.steps = 1000, now absent");
  EXPECT_EQ(first_difference(Json::object(), Json::object()), "");
  EXPECT_EQ(first_difference(Json::object(), Json{{"sequences", 64}}),
            "sequences = absent, now 64");
}

}  // namespace
}  // namespace ssa
