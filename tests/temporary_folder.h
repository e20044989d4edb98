// A folder of the running test's own: ctest runs the tests of a program side by side, each in a
// process.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace ssa::test {

/// Where the folder would lie; the test makes and removes it.
inline std::filesystem::path temporary_folder() {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  return std::filesystem::path(testing::TempDir()) /
         (std::string(test->test_suite_name()) + "." + test->name() + "-" +
          std::to_string(getpid()));
}

/// A test with such a folder.
class FolderTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ = temporary_folder();
};

}  // namespace ssa::test
