#include "experiment/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "experiment/closing_verdict.h"
#include "experiment/table_text.h"

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

  /// Error rates under that key, of 1000 chances each, in the place of "m".
  Made& as_rates(const std::string& key) {
    for (CellResult& result : results) {
      const double value = result.metrics.at("m");
      result.metrics = {{key, value}};
      result.counts = {{key, {std::llround(1000 * value), 1000}}};
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
  EXPECT_EQ(rows[0].effect.test.difference.count, 0);
  EXPECT_EQ(rows[0].verdict, "");
  EXPECT_DOUBLE_EQ(rows[1].value.mean, 0.25);
  const Estimate& difference = rows[1].effect.test.difference;
  EXPECT_DOUBLE_EQ(difference.mean, -0.25);
  // differences −0.25, −0.125, −0.375: deviation 0.125, t(2) = 4.302652729749464
  EXPECT_NEAR(difference.half_width, 4.302652729749464 * 0.125 / std::sqrt(3.0), 1e-12);
  EXPECT_EQ(rows[1].verdict, "not decided");
  EXPECT_EQ(rows[1].role, RowRole::description) << "nobody says which direction of m is better";
  EXPECT_EQ(rows[1].seeds, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(rows[1].baselines[0].second, 0.5);
}

TEST(Compare, ComparesRatesByTheLogOddsOfTheirCounts) {
  Made made;
  made.add("softmax", {0.25, 0.5, 0.125}).add("ssa", {0.125, 0.25, 0.0625});
  const auto rows = made.as_rates("sigma=5/40/wrong").rows();
  EXPECT_EQ(rows[1].measure.scale, Scale::log_odds);
  const auto difference = [](double k, double of_softmax) {
    return std::log((k + 0.5) / (1000 - k + 0.5)) -
           std::log((of_softmax + 0.5) / (1000 - of_softmax + 0.5));
  };
  const double mean = (difference(125, 250) + difference(250, 500) + difference(63, 125)) / 3;
  EXPECT_NEAR(rows[1].effect.test.difference.mean, mean, 1e-12);
  EXPECT_NEAR(to_json(rows)[1].at("effect").get<double>(), std::exp(mean), 1e-12);
  EXPECT_GT(rows[0].measure.back(rows[0].centre.mean), 0.125);
  EXPECT_LT(rows[0].measure.back(rows[0].centre.mean), 0.5);

  made.results.front().counts = Json::object();  // not known everywhere: plain
  EXPECT_EQ(made.rows()[1].measure.scale, Scale::plain);
}

TEST(Compare, GivesAVerdictWhereTheAdjustedPIsSmall) {
  Made lower;
  lower.add("softmax", {0.5, 0.5, 0.5}).add("ssa", {0.25, 0.25, 0.3125});
  EXPECT_EQ(lower.as_rates("sigma=5/40/wrong").rows()[1].verdict, "lower");
  Made higher;
  higher.add("softmax", {0.25, 0.25, 0.3125}).add("ssa", {0.5, 0.5, 0.5});
  EXPECT_EQ(higher.as_rates("sigma=5/40/wrong").rows()[1].verdict, "higher");
}

/// Twenty more rows without a difference: what was 1 in 20 by chance is no verdict any more.
TEST(Compare, CorrectsForTheOtherRows) {
  Made made;
  made.add("softmax", {0.5, 0.5, 0.5}).add("ssa", {0.40, 0.42, 0.45});
  made.as_rates("sigma=5/40/wrong");
  EXPECT_EQ(made.rows()[1].verdict, "lower");
  const double alone = made.rows()[1].effect.test.p;
  for (CellResult& result : made.results) {
    for (int i = 6; i < 26; ++i) {
      const std::string key = "sigma=" + std::to_string(i) + "/40/wrong";
      result.metrics[key] = 0.5;
      result.counts[key] = {500, 1000};
    }
  }
  EXPECT_EQ(made.rows()[1].effect.test.p, alone);
  EXPECT_NEAR(made.rows()[1].p_adjusted, 21 * alone, 1e-12);
  EXPECT_EQ(made.rows()[1].verdict, "not decided");
  made.experiment.settings.metrics = {"sigma=5/*"};
  EXPECT_EQ(made.rows()[1].verdict, "lower") << "the table alone is one family";
}

TEST(Compare, CallsEquivalentOnlyWhatLiesWithinTheMargin) {
  Made made;
  made.add("softmax", {0.5, 0.5, 0.5, 0.5}).add("ssa", {0.5, 0.501, 0.499, 0.5});
  made.as_rates("sigma=5/40/wrong");
  EXPECT_EQ(made.rows()[1].verdict, "not decided") << "no margin was named";
  made.experiment.settings.margin = 1.25;
  // Counting leaves 0.045 of standard error, Student's t makes it ×/÷ 1.15.
  EXPECT_EQ(made.rows()[1].verdict, "equivalent");
  made.experiment.settings.margin = 1.1;
  EXPECT_EQ(made.rows()[1].verdict, "not decided");
  // No error in 1000 on either side says little about the ratio of the rates.
  Made none;
  none.add("softmax", {0, 0, 0, 0}).add("ssa", {0, 0, 0, 0});
  none.experiment.settings.margin = 1.25;
  EXPECT_EQ(none.as_rates("sigma=5/40/wrong").rows()[1].verdict, "not decided");
}

TEST(Compare, CountsNeitherRepeatsNorWhatIsNotShifted) {
  Made made;
  made.add("softmax", {0.5, 0.5, 0.5}).add("ssa", {0.25, 0.25, 0.3125});
  for (CellResult& result : made.results) {
    const double value = result.metrics.at("m");
    result.config = {{"task", {{"points_end", 41}}}};
    result.metrics = Json::object();
    for (const char* key :
         {"none/40/wrong", "sigma=1/40/wrong", "sigma=5/40/wrong", "length=41/41/wrong",
          "length=80/80/wrong", "huge=10/40/wrong-before", "huge=100/40/wrong-before",
          "huge=100/40/wrong-at", "huge=100/40/sequence-wrong-at"}) {
      result.metrics[key] = value;
      result.counts[key] = {std::llround(1000 * value), 1000};
    }
    result.metrics["none/last-layer/entropy"] = value;
  }
  std::map<std::string, const ComparisonRow*> found;
  const auto rows = made.rows();
  for (const ComparisonRow& row : rows) found[row.metric] = &row;
  EXPECT_EQ(found.at("none/40/wrong")->role, RowRole::control);
  EXPECT_EQ(found.at("sigma=1/40/wrong")->role, RowRole::repeat);
  EXPECT_EQ(found.at("sigma=1/40/wrong")->verdict, "repeats none/40/wrong");
  EXPECT_EQ(found.at("sigma=5/40/wrong")->role, RowRole::counted);
  EXPECT_EQ(found.at("length=41/41/wrong")->role, RowRole::control);
  EXPECT_EQ(found.at("length=80/80/wrong")->role, RowRole::counted);
  EXPECT_EQ(found.at("huge=10/40/wrong-before")->role, RowRole::control);
  EXPECT_EQ(found.at("huge=100/40/wrong-before")->repeats, "huge=10/40/wrong-before");
  EXPECT_EQ(found.at("huge=100/40/sequence-wrong-at")->repeats, "huge=100/40/wrong-at");
  EXPECT_EQ(found.at("none/last-layer/entropy")->role, RowRole::description);
  const auto counts = count_verdicts(rows);
  ASSERT_EQ(counts.size(), 1);
  EXPECT_EQ(counts[0].comparisons, 3);
  EXPECT_EQ(counts[0].better, 3);
}

/// One diverging seed hides in a difference what every seed shows: half the error.
TEST(Compare, ComparesRelativeErrorsByTheirRatio) {
  Made made;
  made.add("softmax", {1, 20, 400}).add("ssa", {0.5, 11, 180});
  for (CellResult& result : made.results) {
    const Json value = result.metrics.at("m");
    result.metrics["sigma=2/40/relative-error"] = value;
  }
  const auto rows = made.rows();
  ASSERT_EQ(rows.size(), 4);
  EXPECT_EQ(rows[1].metric, "m");
  EXPECT_EQ(rows[1].verdict, "not decided");
  EXPECT_EQ(rows[3].verdict, "lower");
  EXPECT_NEAR(std::exp(rows[3].effect.test.difference.mean), std::cbrt(0.5 * 0.55 * 0.45), 1e-12);
  // Student's t of 2 degrees, 4.3027, times the deviation of the three logarithms over √3.
  const std::string text = format_table(rows, TableStyle::kText);
  EXPECT_NE(text.find("×0.498 [0.388, 0.639]"), std::string::npos) << text;
  const Json json = to_json(rows);
  EXPECT_TRUE(json[1].at("ratio").is_null());
  EXPECT_NEAR(json[3].at("ratio_low").get<double>(), 0.388, 5e-4);

  Made zero;
  zero.add("softmax", {1, 2, 3}).add("ssa", {0, 1, 2});
  for (CellResult& result : zero.results) {
    result.metrics = {{"sigma=2/40/relative-error", result.metrics.at("m")}};
  }
  EXPECT_EQ(zero.rows()[1].verdict, "no verdict: not finite");
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

EndpointConfig endpoint(const std::string& name, std::vector<std::string> metrics) {
  EndpointConfig made;
  made.name = name;
  made.variant = "full";
  made.evaluation = "icl-shift";
  made.metrics = std::move(metrics);
  return made;
}

TEST(Endpoints, AreCorrectedTogether) {
  Made made;
  made.add("softmax", {0.5, 0.5, 0.5}).add("ssa", {0.25, 0.25, 0.3125});
  made.as_rates("sigma=5/40/wrong");
  for (CellResult& result : made.results) {
    result.metrics["sigma=10/40/wrong"] = result.score == "ssa" ? 0.125 : 0.25;
    result.counts["sigma=10/40/wrong"] = {result.score == "ssa" ? 125 : 250, 1000};
  }
  made.experiment.endpoints = {endpoint("first", {"sigma=5/40/wrong", "sigma=10/40/wrong"}),
                               endpoint("second", {"sigma=10/40/wrong"}),
                               endpoint("not run", {"sigma=40/40/wrong"})};
  const auto rows = compare_endpoints(made.experiment, made.results);
  ASSERT_EQ(rows.size(), 3);
  const auto odds = [](double k) { return std::log((k + 0.5) / (1000 - k + 0.5)); };
  const double first = odds(250) - odds(500), third = odds(313) - odds(500);
  const double second = odds(125) - odds(250);
  EXPECT_NEAR(rows[0].effect.test.difference.mean, ((2 * first + third) / 3 + second) / 2, 1e-12);
  EXPECT_EQ(rows[0].seeds, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(rows[0].planned, 3);
  EXPECT_EQ(rows[2].verdict, "not run");
  // Three endpoints were named: those not run count too.
  const double smaller = std::min(rows[0].effect.test.p, rows[1].effect.test.p);
  EXPECT_NEAR(std::min(rows[0].p_adjusted, rows[1].p_adjusted), 3 * smaller, 1e-12);
  const Json json = verdicts_json(made.experiment, 3, made.rows(), rows);
  EXPECT_EQ(json.at("endpoints").at(2).at("verdict"), "not run");
  EXPECT_TRUE(json.at("endpoints").at(2).at("effect").is_null());
  EXPECT_EQ(json.at("counts").at(0).at("score"), "ssa");
}

TEST(Compare, LeavesOutSeedsWithoutAPartner) {
  const auto rows = Made().add("softmax", {0.5, 0.5}).add("ssa", {0.25, 0.25, 9}).rows();
  EXPECT_EQ(rows[1].value.count, 3);
  EXPECT_EQ(rows[1].effect.test.difference.count, 2);
  EXPECT_EQ(rows[1].effect.test.difference.mean, -0.25);
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
  EXPECT_EQ(rows[4].plain_difference.count, 0);
}

TEST(Table, HasOneLineForSoftmaxBesideEachOtherScore) {
  Made made;
  made.add("softmax", {0.5, 0.25, 0.75})
      .add("ssa", {0.25, 0.125, 0.375})
      .add("softcap", {0.5, 0.5, 0.5});
  const std::string text = format_table(made.rows(), TableStyle::kText);
  EXPECT_NE(text.find("0.50 ± 0.62  ssa      0.25 ± 0.31"), std::string::npos) << text;
  EXPECT_NE(text.find("-0.25 ± 0.31  0.15 "), std::string::npos) << text;
  EXPECT_NE(text.find("not decided  1-3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("softcap"), std::string::npos) << text;
  const std::string markdown = format_table(made.rows(), TableStyle::kMarkdown);
  EXPECT_NE(markdown.find("| m | 0.50 ± 0.62 | ssa | 0.25 ± 0.31 | -0.25 ± 0.31 | 0.074 | 0.15 |"),
            std::string::npos)
      << markdown;
  EXPECT_NE(markdown.find("| not decided | 0.5 | 1-3 | 1000 |"), std::string::npos) << markdown;
}

TEST(Table, CountsTheVerdictsOfErrors) {
  Made made;
  made.add("softmax", {0.5, 0.5, 0.5}).add("ssa", {0.25, 0.25, 0.3125});
  EXPECT_TRUE(count_verdicts(made.rows()).empty()) << "m is no error";
  made.as_rates("sigma=5/40/wrong");
  for (CellResult& result : made.results) {
    result.metrics["none/last-layer/entropy"] = 1;
    result.metrics["huge=1/40/wrong-at"] = 0;
    result.counts["huge=1/40/wrong-at"] = {0, 10};
  }
  ASSERT_EQ(count_verdicts(made.rows()).size(), 1);
  EXPECT_EQ(format_count(count_verdicts(made.rows())[0]),
            "ssa: of 2 comparisons with softmax 1 better, 0 worse, 0 equivalent, 1 not decided.\n");
}

TEST(Table, DropsColumnsUntilATerminalHoldsIt) {
  Made made;
  made.add("softmax", {0.5, 0.25, 0.75}).add("ssa", {0.25, 0.125, 0.375});
  const std::string long_name(40, 'x');
  for (CellResult& result : made.results) result.metrics = {{long_name, result.metrics.at("m")}};
  const std::string text = format_table(made.rows(), TableStyle::kText);
  EXPECT_NE(text.find("softmax  score  value  difference"), std::string::npos) << text;
  EXPECT_NE(text.find("-0.25 ± 0.31  "), std::string::npos) << text;
  EXPECT_EQ(text.find("flips"), std::string::npos) << text;
  EXPECT_NE(format_table(made.rows(), TableStyle::kMarkdown).find("flips"), std::string::npos);
  EXPECT_EQ(wrap("a\nb"), "a b\n");
  EXPECT_EQ(wrap(std::string(60, 'x') + " " + std::string(60, 'y')),
            std::string(60, 'x') + "\n" + std::string(60, 'y') + "\n");
}

TEST(Verdict, SaysInAFewLinesHowItCameOut) {
  Made made;
  made.add("softmax", {0.5, 0.5, 0.5}).add("ssa", {0.25, 0.25, 0.3125});
  EXPECT_EQ(closing_verdict(made.rows(), {}, 6, 0),
            "Verdict: none: no error is compared with softmax's.\n");
  made.as_rates("sigma=5/40/wrong");
  EXPECT_EQ(closing_verdict(
                Made(10).add("softmax", {1}).add("ssa", {1}).as_rates("sigma=5/40/wrong").rows(),
                {}, 2, 0),
            "Verdict: none: smoke run.\n");
  EXPECT_EQ(
      closing_verdict(
          Made().add("softmax", {1}).add("ssa", {1}).as_rates("sigma=5/40/wrong").rows(), {}, 2, 0),
      "Verdict: none: too few seeds.\n");
  for (CellResult& result : made.results) {
    result.metrics["huge=1/40/wrong-at"] = 0;
    result.counts["huge=1/40/wrong-at"] = {0, 10};
  }
  EXPECT_EQ(closing_verdict(made.rows(), {}, 6, 1),
            "Verdict: of 2 comparisons of ssa with softmax 1 better, 0 worse, 0 equivalent, 1 not "
            "decided.\n"
            "Not seen: half of 1 undecided comparisons could not show less than a factor of 566.\n"
            "1 of 6 cells are not finished.\n");
}

TEST(Verdict, HasTwoLinesForPrimaryEndpointsAtMost) {
  const auto endpoint = [](const char* name, double p, const char* verdict) {
    EndpointRow row{EndpointConfig(), "ssa"};
    row.endpoint.name = name;
    row.measure = {.better = Better::lower, .scale = Scale::log_odds};
    row.effect.test = {{std::log(0.5), std::log(2), 3}, p, 1};
    row.p_adjusted = p;
    row.verdict = verdict;
    return row;
  };
  const EndpointRow first = endpoint("first", 0.9, "not decided");
  const EndpointRow second = endpoint("second", 0.01, "lower");
  const EndpointRow third = endpoint("third", 0.02, "higher");
  const std::string none = "Verdict: none: no error is compared with softmax's.\n";
  const std::string of_second = "Primary endpoint second (ssa): ×0.5 [0.25, 1], better.\n";
  EXPECT_EQ(closing_verdict({}, {first, second}, 0, 0),
            none + of_second + "Primary endpoint first (ssa): ×0.5 [0.25, 1], not decided.\n");
  EXPECT_EQ(closing_verdict({}, {first, second, third}, 0, 0),
            none + of_second + "2 other primary endpoints: 1 worse, 1 not decided.\n");
}

TEST(Table, SaysWhichScoreDidBetterWhere) {
  Made made;
  made.add("softmax", {0.5, 0.5, 0.5}).add("ssa", {0.25, 0.25, 0.3125});
  const auto errors = [&made] {
    for (CellResult& result : made.results) {
      const double value = result.metrics.at("m");
      result.metrics = {{"sigma=5/40/wrong", value}, {"huge=1/40/wrong-at", 0}, {"m", value}};
      result.counts = {{"sigma=5/40/wrong", {std::llround(1000 * value), 1000}},
                       {"huge=1/40/wrong-at", {0, 10}}};
    }
    return verdict_table(made.rows(), TableStyle::kMarkdown);
  };
  EXPECT_EQ(errors(), "") << "one score needs no table";
  made.add("softcap", {0.75, 0.75, 0.6875});
  EXPECT_EQ(errors(),
            "| metric | ssa | softcap |\n|---|---|---|\n"
            "| all | 1 lower of 2 | 1 higher of 2 |\n"
            "| sigma=5/40/wrong | 1 lower of 1 | 1 higher of 1 |\n"
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
  made.experiment.settings.metrics = {"huge=*-at"};
  const auto rows = rows_of_table(made.rows());
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
  EXPECT_TRUE(rows[0]["effect"].is_null());
}

}  // namespace
}  // namespace ssa
