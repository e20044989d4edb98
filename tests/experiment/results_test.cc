#include "experiment/results.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "temporary_folder.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

CellResult example(std::int64_t seed) {
  CellResult result;
  result.variant = "full";
  result.score = "ssa";
  result.seed = seed;
  result.task = "icl-every";
  result.evaluation = "icl-shift";
  result.steps = 1000;
  result.run = "runs/full/ssa/seed-1";
  result.metrics = {{"sigma=10/40/wrong", 0.5}, {"sigma=2/40/wrong", 0.25}};
  result.baselines = {{"constant", {{"sigma=2/40/wrong", 0.5}}}};
  result.score_parameters = {{{"n", {1.5, 1.25}}}};
  result.config = {{"train", {{"steps", 1000}}}};
  result.options = Json::object();
  return result;
}

class ResultsFile : public test::FolderTest {
 protected:
  std::string text() const {
    std::ifstream in(file_);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const fs::path file_ = folder_ / "results.jsonl";
  bool cut_off_ = false;
};

TEST_F(ResultsFile, MissingHoldsNothing) {
  EXPECT_TRUE(read_results(file_, cut_off_).empty());
  EXPECT_FALSE(cut_off_);
}

TEST_F(ResultsFile, KeepsLinesAndTheOrderOfMetrics) {
  append_result(file_, example(1));
  append_result(file_, example(2));
  const auto results = read_results(file_, cut_off_);
  ASSERT_EQ(results.size(), 2);
  EXPECT_FALSE(cut_off_);
  EXPECT_EQ(results[1].seed, 2);
  EXPECT_EQ(results[1].metrics.dump(), example(2).metrics.dump());
  EXPECT_EQ(results[1].config, example(2).config);
  EXPECT_EQ(results[1].score_parameters, example(2).score_parameters);
}

TEST_F(ResultsFile, ALineCutOffIsReportedAndReplaced) {
  append_result(file_, example(1));
  const std::string whole = text();
  std::ofstream(file_, std::ios::app) << whole.substr(0, whole.size() / 2);
  EXPECT_EQ(read_results(file_, cut_off_).size(), 1);
  EXPECT_TRUE(cut_off_);
  append_result(file_, example(2));
  const auto results = read_results(file_, cut_off_);
  EXPECT_FALSE(cut_off_);
  ASSERT_EQ(results.size(), 2);
  EXPECT_EQ(results[1].seed, 2);
}

TEST_F(ResultsFile, AFirstLineCutOffIsReplacedToo) {
  std::ofstream(file_) << "{\"variant\": \"fu";
  EXPECT_TRUE(read_results(file_, cut_off_).empty());
  EXPECT_TRUE(cut_off_);
  append_result(file_, example(1));
  EXPECT_EQ(read_results(file_, cut_off_).size(), 1);
}

TEST_F(ResultsFile, ABrokenLineInTheMiddleIsAnError) {
  append_result(file_, example(1));
  std::ofstream(file_, std::ios::app) << "{\"variant\": \n";
  try {
    read_results(file_, cut_off_);
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("results.jsonl:2: not valid JSON"), std::string::npos)
        << error.what();
  }
}

TEST_F(ResultsFile, KeepsCountsAndSaysHowMetricsAreCompared) {
  CellResult result = example(1);
  result.counts = {{"sigma=10/40/wrong", {3, 6}}};
  result.options = {{"data_seed", 1235}};
  result.program = {{"git", "abc"}, {"target", "AVX2"}};
  append_result(file_, result);
  const Json line = Json::parse(text());
  EXPECT_EQ(line.at("kinds").dump(), R"({"wrong":{"better":"lower","scale":"log-odds"}})");
  const CellResult read = read_results(file_, cut_off_).front();
  EXPECT_EQ(read.counts, result.counts);
  EXPECT_EQ(read.program, result.program);
  EXPECT_FALSE(shares_test_sequences(read));

  for (const Json& wrong : {Json({{"sigma=10/40/wrong", {7, 6}}}), Json({{"other", {1, 6}}}),
                            Json({{"sigma=10/40/wrong", {1, 2, 3}}}), Json::array()}) {
    Json broken = line;
    broken["counts"] = wrong;
    std::ofstream(file_) << broken.dump() << "\n";
    EXPECT_THROW(read_results(file_, cut_off_), std::runtime_error) << wrong;
  }
}

/// Lines of earlier versions have rates alone; with the options these are whole numbers again.
TEST_F(ResultsFile, OfEarlierVersionsGivesTheCountsBack) {
  CellResult result = example(1);
  result.options = {{"sequences", 640}, {"huge_position", 11}};
  result.metrics = {
      {"none/40/wrong", 3.0 / 25600},           {"length=200/200/wrong", 5.0 / 128000},
      {"huge=10/40/wrong-before", 2.0 / 6400},  {"huge=10/40/wrong-at", 0.375},
      {"huge=10/40/wrong-after", 29.0 / 18560}, {"none/40/sequence-wrong", 1.0 / 640},
      {"none/40/relative-error", 0.25},         {"sigma=2/40/wrong", 0.1234567}};
  append_result(file_, result);
  Json line = Json::parse(text());
  line.erase("counts");
  std::ofstream(file_) << line.dump() << "\n";
  const CellResult read = read_results(file_, cut_off_).front();
  EXPECT_TRUE(shares_test_sequences(read));
  const Json expected = {
      {"none/40/wrong", {3, 25600}},           {"length=200/200/wrong", {5, 128000}},
      {"huge=10/40/wrong-before", {2, 6400}},  {"huge=10/40/wrong-at", {240, 640}},
      {"huge=10/40/wrong-after", {29, 18560}}, {"none/40/sequence-wrong", {1, 640}}};
  EXPECT_EQ(read.counts, expected) << "what is no whole number of errors has no counts";
}

TEST_F(ResultsFile, MetricsAreNumbers) {
  append_result(file_, example(1));
  const Json whole = Json::parse(text());
  for (const char* key : {"metrics", "baselines"}) {
    Json line = whole;
    line[key] =
        key == std::string("metrics") ? Json({{"none/40/wrong", "x"}}) : Json({{"constant", 3}});
    std::ofstream(file_) << line.dump() << "\n";
    try {
      read_results(file_, cut_off_);
      FAIL() << "no error: " << key;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what())
                    .find(fmt::format(
                        "results.jsonl:1: field \"{}\": expected an object of numbers", key)),
                std::string::npos)
          << error.what();
    }
  }
}

TEST_F(ResultsFile, AMissingFieldIsNamed) {
  std::ofstream(file_) << "{\"variant\": \"full\"}\n";
  try {
    read_results(file_, cut_off_);
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("results.jsonl:1: field \"score\""), std::string::npos)
        << error.what();
  }
}

TEST_F(ResultsFile, LinesOfEarlierVersionsHaveNoScoreParameters) {
  append_result(file_, example(1));
  Json line = Json::parse(text());
  line.erase("score_parameters");
  std::ofstream(file_) << line.dump() << "\n";
  EXPECT_TRUE(read_results(file_, cut_off_)[0].score_parameters.empty());
  for (const char* bad :
       {"7", "[[1.5]]", R"([{"n": 1.5}])", R"([{"n": []}])", R"([{"n": ["x"]}])"}) {
    line["score_parameters"] = Json::parse(bad);
    std::ofstream(file_) << line.dump() << "\n";
    try {
      read_results(file_, cut_off_);
      FAIL() << "no error: " << bad;
    } catch (const std::runtime_error& error) {
      const std::string told = error.what();
      EXPECT_NE(told.find("results.jsonl:1: field \"score_parameters\""), std::string::npos)
          << told;
    }
  }
}

TEST_F(ResultsFile, AreCollectedFromARunFolder) {
  Cell cell{"full", "ssa", 3, {}};
  cell.config.train.steps = 1000;
  const fs::path run = folder_ / cell.run();
  fs::create_directories(run / "evals");
  std::ofstream(run / "run.json") << R"({"parameters": 38000})";
  std::ofstream(run / "metrics.jsonl") << R"({"step": 500, "loss": 1, "seconds": 3.5}
{"step": 1000, "loss": 1, "seconds": 8}
{"step": 1000, "validation": {"loss": 1.25, "wrong": 0.5}}
)";
  std::ofstream(run / "evals/icl-shift.json") << R"({"step": 1000,
   "score_parameters": [{"n": [1.5, 1.25], "b": [0.8]}], "rows": [
    {"shift": "none", "value": null, "points": 40, "predictor": "model", "metric": "wrong", "mean": 0.25},
    {"shift": "sigma", "value": 1000, "points": 40, "predictor": "model", "metric": "wrong", "mean": null},
    {"shift": "grid", "value": [1, 2.5], "points": 40, "predictor": "model", "metric": "wrong", "mean": 0.5},
    {"shift": "none", "value": null, "points": 40, "predictor": "constant", "metric": "wrong", "mean": 0.75}],
   "attention": [
    {"shift": "huge", "value": 100, "layer": 0, "head": 0, "mass_on_huge": 0.9, "entropy": 9, "p_max": 0.9},
    {"shift": "huge", "value": 100, "layer": 1, "head": 0, "mass_on_huge": 0.5, "entropy": 1, "p_max": 0.5},
    {"shift": "huge", "value": 100, "layer": 1, "head": 1, "mass_on_huge": 0.25, "entropy": 2, "p_max": 0.75}]})";
  const CellResult result = collect_result(cell, folder_, "icl-shift", Json::object());
  EXPECT_EQ(result.parameters, 38000);
  EXPECT_EQ(result.run, "runs/full/ssa/seed-3");
  EXPECT_EQ(result.score_parameters.dump(), R"([{"n":[1.5,1.25],"b":[0.8]}])");
  EXPECT_EQ(result.metrics.at("none/40/wrong"), 0.25);
  EXPECT_TRUE(std::isnan(result.metrics.at("sigma=1000/40/wrong").get<double>()));
  EXPECT_EQ(result.metrics.at("grid=1x2.5/40/wrong"), 0.5);
  EXPECT_EQ(result.baselines.at("constant").at("none/40/wrong"), 0.75);
  EXPECT_EQ(result.metrics.at("huge=100/last-layer/mass-on-huge"), 0.375);
  EXPECT_EQ(result.metrics.at("huge=100/last-layer/entropy"), 1.5);
  EXPECT_EQ(result.metrics.at("huge=100/last-layer/p-max"), 0.625);
  EXPECT_EQ(result.metrics.at("training/milliseconds-per-step"), 8.0);
  EXPECT_EQ(result.metrics.at("training/validation-loss"), 1.25);

  append_result(file_, result);  // a value that is not finite survives the file as null
  EXPECT_TRUE(read_results(file_, cut_off_)[0].metrics.at("sigma=1000/40/wrong").is_null());

  cell.config.train.steps = 2000;
  EXPECT_THROW(collect_result(cell, folder_, "icl-shift", Json::object()), std::runtime_error);
}

}  // namespace
}  // namespace ssa
