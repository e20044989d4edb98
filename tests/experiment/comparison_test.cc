#include "experiment/comparison.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ssa {
namespace {

/// Results of one variant: metric "m" for seeds 1, 2, … of each score.
struct Made {
  Experiment experiment;
  std::vector<CellResult> results;

  explicit Made(std::int64_t steps = 1000) : steps_(steps) {
    experiment.variants = {"full"};
    experiment.settings.evaluations = {"icl-shift"};
  }

  Made& add(const std::string& score, const std::vector<double>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto seed = static_cast<std::int64_t>(i + 1);
      experiment.cells.push_back({"full", score, seed, {}});
      CellResult result;
      result.variant = "full";
      result.score = score;
      result.seed = seed;
      result.evaluation = "icl-shift";
      result.steps = steps_;
      result.metrics = {{"m", values[i]}};
      result.baselines = {{"constant", {{"m", 0.5}}}};
      results.push_back(result);
    }
    return *this;
  }

  std::vector<ComparisonRow> rows() const { return compare(experiment, results); }

 private:
  std::int64_t steps_;
};

TEST(Compare, PairsBySeed) {
  const auto rows =
      Made().add("softmax", {0.5, 0.25, 0.75}).add("ssa", {0.25, 0.125, 0.375}).rows();
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].score, "softmax");
  EXPECT_DOUBLE_EQ(rows[0].value.mean, 0.5);
  EXPECT_EQ(rows[0].difference.count, 0);
  EXPECT_EQ(rows[0].verdict, "");
  EXPECT_DOUBLE_EQ(rows[1].value.mean, 0.25);
  EXPECT_DOUBLE_EQ(rows[1].difference.mean, -0.25);
  // differences −0.25, −0.125, −0.375: deviation 0.125, t(2) = 4.302652729749464
  EXPECT_NEAR(rows[1].difference.half_width, 4.302652729749464 * 0.125 / std::sqrt(3.0), 1e-12);
  EXPECT_EQ(rows[1].verdict, "no difference measurable");
  EXPECT_EQ(rows[1].seeds, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(rows[1].baselines[0].second, 0.5);
}

TEST(Compare, GivesAVerdictWhereTheIntervalLeavesOutZero) {
  Made lower;
  lower.add("softmax", {0.5, 0.5, 0.5}).add("ssa", {0.25, 0.25, 0.3125});
  EXPECT_EQ(lower.rows()[1].verdict, "lower");
  Made higher;
  higher.add("softmax", {0.25, 0.25, 0.3125}).add("ssa", {0.5, 0.5, 0.5});
  EXPECT_EQ(higher.rows()[1].verdict, "higher");
  Made equal;
  equal.add("softmax", {0, 0, 0}).add("ssa", {0, 0, 0});
  EXPECT_EQ(equal.rows()[1].verdict, "no difference measurable");
}

/// One diverging seed hides in a difference what every seed shows: half the error.
TEST(Compare, ComparesRelativeErrorsByTheirRatio) {
  Made made;
  made.add("softmax", {1, 20, 400}).add("ssa", {0.5, 11, 180});
  for (CellResult& result : made.results) {
    const Json value = result.metrics.at("m");
    result.metrics["none/40/relative-error"] = value;
  }
  const auto rows = made.rows();
  ASSERT_EQ(rows.size(), 4);
  EXPECT_EQ(rows[1].metric, "m");
  EXPECT_EQ(rows[1].verdict, "no difference measurable");
  EXPECT_EQ(rows[1].log_ratio.count, 0);
  EXPECT_EQ(rows[3].verdict, "lower");
  EXPECT_NEAR(std::exp(rows[3].log_ratio.mean), std::cbrt(0.5 * 0.55 * 0.45), 1e-12);
  // Student's t of 2 degrees, 4.3027, times the deviation of the three logarithms over √3.
  const std::string text = format_table(rows, TableStyle::kText);
  EXPECT_NE(text.find("×0.498 [0.388, 0.639]"), std::string::npos) << text;
  const Json json = to_json(rows);
  EXPECT_TRUE(json[1].at("ratio").is_null());
  EXPECT_NEAR(json[3].at("ratio_low").get<double>(), 0.388, 5e-4);

  Made zero;
  zero.add("softmax", {1, 2, 3}).add("ssa", {0, 1, 2});
  for (CellResult& result : zero.results) {
    result.metrics = {{"none/40/relative-error", result.metrics.at("m")}};
  }
  EXPECT_EQ(zero.rows()[1].log_ratio.count, 0);
}

TEST(Compare, GivesNoVerdictFromTwoSeedsOrFewSteps) {
  Made few_seeds;
  few_seeds.add("softmax", {0.5, 0.5}).add("ssa", {0.25, 0.25});
  EXPECT_EQ(few_seeds.rows()[1].verdict, "no verdict: too few seeds");
  Made few_steps(999);
  few_steps.add("softmax", {0.5, 0.5, 0.5}).add("ssa", {0.25, 0.25, 0.25});
  EXPECT_EQ(few_steps.rows()[1].verdict, "smoke run, no verdict");
  Made not_finite;
  not_finite.add("softmax", {0.5, 0.5, 0.5}).add("ssa", {0.25, std::nan(""), 0.25});
  EXPECT_EQ(not_finite.rows()[1].verdict, "no verdict: not finite");
}

TEST(Compare, LeavesOutSeedsWithoutAPartner) {
  const auto rows = Made().add("softmax", {0.5, 0.5}).add("ssa", {0.25, 0.25, 9}).rows();
  EXPECT_EQ(rows[1].value.count, 3);
  EXPECT_EQ(rows[1].difference.count, 2);
  EXPECT_EQ(rows[1].difference.mean, -0.25);
}

TEST(Compare, AScoreMayLackAMetric) {
  Made made;
  made.add("softmax", {0.5, 0.25}).add("ssa", {0.25, 0.125}).add("alone", {0.1, 0.2});
  for (CellResult& result : made.results) {
    if (result.score == "softmax") result.metrics["only-softmax"] = 1;
    if (result.score == "ssa") result.metrics["only-ssa"] = 2;
  }
  const auto rows = made.rows();
  ASSERT_EQ(rows.size(), 5);
  EXPECT_EQ(rows[3].metric + rows[4].metric, "only-softmaxonly-ssa");
  EXPECT_EQ(rows[4].difference.count, 0);
}

TEST(Table, HasOneLineForSoftmaxBesideEachOtherScore) {
  Made made;
  made.add("softmax", {0.5, 0.25, 0.75})
      .add("ssa", {0.25, 0.125, 0.375})
      .add("softcap", {0.5, 0.5, 0.5});
  const std::string text = format_table(made.rows(), TableStyle::kText);
  EXPECT_NE(text.find("0.50 ± 0.62  ssa      0.25 ± 0.31"), std::string::npos) << text;
  EXPECT_NE(text.find("-0.25 ± 0.31  no difference measurable  0.5       1-3    1000"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("softcap"), std::string::npos) << text;
  const std::string markdown = format_table(made.rows(), TableStyle::kMarkdown);
  EXPECT_NE(markdown.find("| m | 0.50 ± 0.62 | ssa | 0.25 ± 0.31 | -0.25 ± 0.31 |"),
            std::string::npos)
      << markdown;
}

TEST(Table, CountsTheVerdictsOfErrors) {
  Made made;
  made.add("softmax", {0.5, 0.5, 0.5}).add("ssa", {0.25, 0.25, 0.3125});
  EXPECT_EQ(count_verdicts(made.rows()), "") << "m is no error";
  for (CellResult& result : made.results) {
    const Json value = result.metrics.at("m");
    result.metrics = {
        {"none/40/wrong", value}, {"none/last-layer/entropy", value}, {"huge=1/40/wrong-at", 0}};
  }
  EXPECT_EQ(count_verdicts(made.rows()),
            "Of 2 comparisons of errors: 1 lower, 0 higher, 1 no difference measurable.\n");
}

TEST(Table, SaysWhichScoreDidBetterWhere) {
  Made made;
  made.add("softmax", {0.5, 0.5, 0.5}).add("ssa", {0.25, 0.25, 0.3125});
  const auto errors = [&made] {
    for (CellResult& result : made.results) {
      const Json value = result.metrics.at("m");
      result.metrics = {{"none/40/wrong", value}, {"huge=1/40/wrong-at", 0}, {"m", value}};
    }
    return verdict_table(made.rows(), TableStyle::kMarkdown);
  };
  EXPECT_EQ(errors(), "") << "one score needs no table";
  made.add("softcap", {0.75, 0.75, 0.6875});
  EXPECT_EQ(errors(),
            "| metric | ssa | softcap |\n|---|---|---|\n"
            "| all | 1 lower of 2 | 1 higher of 2 |\n"
            "| none/40/wrong | 1 lower of 1 | 1 higher of 1 |\n"
            "| huge=1/40/wrong-at | – of 1 | – of 1 |\n");
}

TEST(Table, WithoutSoftmaxHasNoDifferences) {
  const std::string text = format_table(Made().add("ssa", {0.5, 0.5}).rows(), TableStyle::kText);
  EXPECT_EQ(text.find("difference"), std::string::npos) << text;
  EXPECT_NE(text.find("0.5 ± 0"), std::string::npos) << text;
}

TEST(Table, ShowsTheMetricsThatMatch) {
  Made made;
  made.add("softmax", {0.5});
  made.results[0].metrics = {{"sigma=5/40/wrong", 1}, {"huge=100/40/wrong-at", 1}};
  const auto rows = matching(made.rows(), {"huge=*-at"});
  ASSERT_EQ(rows.size(), 1);
  EXPECT_EQ(rows[0].metric, "huge=100/40/wrong-at");
}

/// Two layers; n has a value for each head, b one for all.
Json made_parameters(double n) {
  return {{{"n", {n, 2.0}}, {"b", {0.5}}}, {{"n", {3.0, nullptr}}, {"b", {0.75}}}};
}

TEST(ScoreParameters, AreSummarisedByLayerAndHead) {
  Made made;
  made.add("softmax", {0, 0}).add("ssa", {0, 0, 0});
  for (CellResult& result : made.results) {
    if (result.score == "ssa") {
      result.score_parameters = made_parameters(1.0 + 0.5 * static_cast<double>(result.seed));
    } else {
      result.score_parameters = {Json::object(), Json::object()};
    }
  }
  made.results.back().score_parameters = Json::array();  // as an earlier version wrote it
  const auto rows = final_score_parameters(made.experiment, made.results);
  ASSERT_EQ(rows.size(), 4);
  EXPECT_EQ(rows[0].score, "ssa");
  EXPECT_EQ(rows[0].parameter, "n");
  EXPECT_EQ(rows[0].layer, 0);
  EXPECT_EQ(rows[0].seeds, (std::vector<std::int64_t>{1, 2}));
  ASSERT_EQ(rows[0].heads.size(), 2);
  EXPECT_DOUBLE_EQ(rows[0].heads[0].mean, 1.75);
  EXPECT_GT(rows[0].heads[0].half_width, 0);
  EXPECT_DOUBLE_EQ(rows[0].heads[1].mean, 2);
  EXPECT_EQ(rows[1].layer, 1);
  EXPECT_TRUE(std::isnan(rows[1].heads[1].mean));
  EXPECT_EQ(rows[2].parameter, "b");
  ASSERT_EQ(rows[3].heads.size(), 1);
  EXPECT_DOUBLE_EQ(rows[3].heads[0].mean, 0.75);

  const std::string markdown = markdown_score_parameters(rows);
  EXPECT_NE(markdown.find("| variant | score | parameter | layer | head 1 | head 2 | seeds |"),
            std::string::npos)
      << markdown;
  EXPECT_NE(markdown.find("| full | ssa | n | 1 | 1.8 ± 3.2 | 2 ± 0 | 1-2 |"), std::string::npos)
      << markdown;
  EXPECT_NE(markdown.find("| full | ssa | n | 2 | 3 ± 0 | not finite | 1-2 |"), std::string::npos)
      << markdown;
  EXPECT_NE(markdown.find("| full | ssa | b | 1 | 0.5 ± 0 (all heads) |  | 1-2 |"),
            std::string::npos)
      << markdown;
  EXPECT_EQ(markdown_score_parameters({}), "");
}

TEST(TableJson, WritesWhatIsUnknownAsNull) {
  const Json rows = Json::parse(to_json(Made().add("ssa", {0.5}).rows()).dump());
  EXPECT_EQ(rows[0]["mean"], 0.5);
  EXPECT_TRUE(rows[0]["interval"].is_null());
  EXPECT_TRUE(rows[0]["difference"].is_null());
}

}  // namespace
}  // namespace ssa
