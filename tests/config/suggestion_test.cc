#include "config/suggestion.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "temporary_folder.h"

namespace ssa {
namespace {

const std::vector<std::string> kNames = {"layers", "heads", "kv_heads", "train", "tokenizer"};

TEST(Suggestion, TakesTheNameOfFewestEdits) {
  EXPECT_EQ(nearest_name("layer", kNames), "layers");
  EXPECT_EQ(nearest_name("head", kNames), "heads");
  EXPECT_EQ(nearest_name("kvheads", kNames), "kv_heads");
  EXPECT_EQ(nearest_name("HEADS", kNames), "heads");
}

TEST(Suggestion, CountsSwappedNeighboursAsOneEdit) {
  EXPECT_EQ(nearest_name("rta", std::vector<std::string>{"rat"}), "rat");
  EXPECT_EQ(nearest_name("rtb", std::vector<std::string>{"rat"}), "");
}

TEST(Suggestion, CompletesAnAbbreviation) {
  EXPECT_EQ(nearest_name("tok", kNames), "tokenizer");
  EXPECT_EQ(nearest_name("--opt", std::vector<std::string>{"--out", "--optimizer"}), "--optimizer");
  EXPECT_EQ(nearest_name("--", std::vector<std::string>{"--out"}), "");
}

TEST(Suggestion, IsNoneWhereNothingResemblesTheName) {
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name("foo", kNames), "");
  EXPECT_EQ(nearest_name("x", {}), "");
  EXPECT_EQ(did_you_mean("foo", kNames), "");
  EXPECT_EQ(did_you_mean("trian", kNames, "[", "]"), "; did you mean [train]?");
}

TEST(Suggestion, CorrectsEveryPartOfAPath) {
  const std::filesystem::path folder = test::temporary_folder();
  std::filesystem::create_directories(folder / "runs/quick/evals");
  std::ofstream(folder / "runs/quick/run.json") << "{}";
  const std::string root = folder.string();
  EXPECT_EQ(did_you_mean(folder / "rusn/quik/run.jsn"),
            "; did you mean " + root + "/runs/quick/run.json?");
  EXPECT_EQ(did_you_mean(folder / "runs/quik"), "; did you mean " + root + "/runs/quick?");
  EXPECT_EQ(did_you_mean(folder / "runs/quick"), "");
  EXPECT_EQ(did_you_mean(folder / "runs/other"), "");
  EXPECT_EQ(did_you_mean(std::filesystem::path()), "");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ssa
