#include "run/metrics.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "files/durable_files.h"
#include "temporary_folder.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

class Metrics : public test::FolderTest {
 protected:
  void put(const std::string& text) { std::ofstream(file_, std::ios::binary) << text; }
  std::string content() {
    std::ifstream in(file_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

  fs::path file_ = folder_ / "metrics.jsonl";
};

TEST_F(Metrics, LinesAfterTheCheckpointAreDropped) {
  put("{\"step\": 1}\n{\"step\":2,\"loss\":0.1}\n{\"step\":2,\"validation\":{}}\n{\"step\":3}\n");
  MetricsFile metrics(folder_, 2);
  metrics.write({{"step", 3}, {"loss", 0.5}});
  EXPECT_EQ(content(),
            "{\"step\": 1}\n{\"step\":2,\"loss\":0.1}\n{\"step\":2,\"validation\":{}}\n"
            "{\"step\":3,\"loss\":0.5}\n");
}

TEST_F(Metrics, ATornLastLineIsDropped) {
  put("{\"step\":1}\n{\"step\":1,\"val");
  MetricsFile metrics(folder_, 5);
  EXPECT_EQ(content(), "{\"step\":1}\n");
}

TEST_F(Metrics, ABrokenLineIsNamed) {
  put("{\"step\":1}\nnonsense\n");
  try {
    MetricsFile metrics(folder_, 5);
    FAIL() << "accepted";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), file_.string() + ":2: not valid JSON (byte 2)");
  }
}

TEST_F(Metrics, WhatIsNoLineOfMetricsIsNamed) {
  for (const char* line : {"[]", "{}", "{\"step\": 1.5}", "{\"step\": 1e400}"}) {
    put(std::string("{\"step\":1}\n") + line + "\n");
    EXPECT_THROW(MetricsFile(folder_, 5), std::runtime_error) << line;
  }
}

TEST_F(Metrics, KnowWhetherTheStepWasValidated) {
  put("{\"step\":1,\"validation\":{}}\n{\"step\":2}\n{\"step\":2,\"validation\":{}}\n{\"step\":3}"
      "\n");
  EXPECT_TRUE(MetricsFile(folder_, 2).has_validation());
  EXPECT_FALSE(MetricsFile(folder_, 3).has_validation());
}

TEST_F(Metrics, NumbersThatAreNotFiniteBecomeNull) {
  MetricsFile(folder_, 0).write({{"step", 1}, {"loss", std::nan("")}});
  EXPECT_EQ(content(), "{\"step\":1,\"loss\":null}\n");
}

TEST_F(Metrics, FilesAreReplacedAsAWhole) {
  write_file(file_, "old");
  write_file(file_, "new");
  EXPECT_EQ(content(), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);  // no temporary file is left
  EXPECT_THROW(write_file(folder_ / "absent" / "x", ""), std::runtime_error);
}

}  // namespace
}  // namespace ssa
