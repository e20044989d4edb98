// The options of evaluations: what flags, experiment files and records make of the lists.
#include "eval/options.h"

#include <gtest/gtest.h>

#include <set>

#include "eval/suites.h"

namespace ssa {
namespace {

using Flags = std::vector<std::string>;

TEST(EvaluationOptions, EveryOptionHasANameOfItsOwnAndADefaultThatItAccepts) {
  std::set<std::string> seen;
  const EvaluationOptions options;
  EvaluationOptions::sections([&](auto member) {
    const auto& section = options.*member;
    for (const std::string& name : field_names<std::remove_cvref_t<decltype(section)>>()) {
      EXPECT_TRUE(seen.insert(name).second) << name << " stands in two sections";
    }
    EXPECT_NO_THROW(check_section(section, "defaults"));
  });
}

TEST(EvaluationOptions, SuitesHaveThoseOfTheirKind) {
  EXPECT_TRUE(takes(find_suite("icl-shift")->kind, "sequences"));
  EXPECT_FALSE(takes(find_suite("icl-shift")->kind, "precision"));
  for (const char* suite : {"ppl", "zero-shot", "zorro", "blimp"}) {
    EXPECT_TRUE(takes(find_suite(suite)->kind, "precision")) << suite;
    EXPECT_FALSE(takes(find_suite(suite)->kind, "sequences")) << suite;
  }
}

TEST(EvaluationOptions, ResultsOfEarlierVersionsAreThoseOfNow) {
  const Json now = checked_options({{"lengths", {256, 512}}, {"items", 500}}, "x.toml");
  EXPECT_EQ(checked_options({{"lengths", "256,512"}, {"items", 500}}, "results.jsonl"), now);
}

TEST(EvaluationOptions, WhatIsNoOptionOfAnExperimentIsRefused) {
  EXPECT_THROW(checked_options({{"items", "500"}}, "x"), std::invalid_argument);
  EXPECT_THROW(checked_options({{"item", 500}}, "x"), std::invalid_argument);
  EXPECT_THROW(checked_options({{"sentences", "scores.tsv"}}, "x"), std::invalid_argument);
}

TEST(EvaluationOptions, FlagsSayWhatTheSuiteHasAndIsNoDefault) {
  const Json options = {{"lengths", {256, 512}}, {"items", 0},  {"skip_bad_lines", true},
                        {"document_line", ""},   {"stride", 0}, {"precision", "bfloat16"}};
  EXPECT_EQ(option_flags(options, SuiteKind::perplexity),
            (Flags{"--lengths", "256,512", "--skip-bad-lines", "--document-line", "", "--precision",
                   "bfloat16"}));
  EXPECT_EQ(option_flags(options, SuiteKind::choices), (Flags{"--precision", "bfloat16"}));
}

TEST(EvaluationOptions, TheRecordHasEveryOptionButFilesThatAreWritten) {
  EvaluationOptions options;
  set_option(options, {"evaluation", "items", 7, "--items"});
  const Json record = options_json(options, SuiteKind::choices);
  EXPECT_EQ(record.at("items"), 7);
  EXPECT_EQ(record.at("precision"), "float32");
  EXPECT_FALSE(record.contains("choices"));
  EXPECT_FALSE(record.contains("sequences"));
}

}  // namespace
}  // namespace ssa
