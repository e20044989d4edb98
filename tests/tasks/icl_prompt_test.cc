#include "tasks/icl_prompt.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace ssa {
namespace {

std::vector<float> numbers(const torch::Tensor& row) {
  EXPECT_EQ(row.dim(), 2);
  EXPECT_EQ(row.size(0), 1);
  const torch::Tensor plain = row.contiguous();
  return {plain.const_data_ptr<float>(), plain.const_data_ptr<float>() + plain.numel()};
}

std::string refusal(IclTask task, const std::string& text) {
  try {
    icl_prompt(task, text, "--input");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(IclPrompt, YFollowsFromTheRule) {
  const IclSequences every = icl_prompt(IclTask::every, "1.5,-0.3,100", "--input");
  EXPECT_EQ(numbers(every.x), (std::vector<float>{1.5F, -0.3F, 100.0F}));
  EXPECT_EQ(numbers(every.y), (std::vector<float>{1, -1, -1}));
  EXPECT_EQ(numbers(icl_prompt(IclTask::some, "-1,2,-3", "--input").y),
            (std::vector<float>{-1, 1, 1}));
}

TEST(IclPrompt, EveryWayToWriteThem) {
  for (const char* text :
       {"1,-2,3", " 1 -2\n+3\r\n", "1, -2,\t3,", "[1, -2, 3e0]", "\n[1,-2,3]\n"}) {
    EXPECT_EQ(numbers(icl_prompt(IclTask::every, text, "--input").x),
              (std::vector<float>{1, -2, 3}))
        << text;
  }
}

TEST(IclPrompt, PairsSayY) {
  for (const char* text : {"1:2.5,2:4.5", "1:2.5 2:4.5", "[[1, 2.5], [2, 4.5]]"}) {
    const IclSequences read = icl_prompt(IclTask::linear, text, "--input");
    EXPECT_EQ(numbers(read.x), (std::vector<float>{1, 2})) << text;
    EXPECT_EQ(numbers(read.y), (std::vector<float>{2.5F, 4.5F})) << text;
  }
  // What the rule would say is not asked.
  EXPECT_EQ(numbers(icl_prompt(IclTask::every, "1:-1", "--input").y), (std::vector<float>{-1}));
}

TEST(IclPrompt, NamesWhatIsWrong) {
  const std::string no_number = " is neither a finite number nor a pair ";
  EXPECT_EQ(refusal(IclTask::every, "1,x"), "--input: value 2, \"x\"," + no_number + "x:y");
  EXPECT_EQ(refusal(IclTask::every, "inf"), "--input: value 1, \"inf\"," + no_number + "x:y");
  EXPECT_EQ(refusal(IclTask::every, "1e39"), "--input: value 1, \"1e39\"," + no_number + "x:y");
  EXPECT_EQ(refusal(IclTask::every, "1:"), "--input: value 1, \"1:\"," + no_number + "x:y");
  EXPECT_EQ(refusal(IclTask::every, "1:2:3"), "--input: value 1, \"1:2:3\"," + no_number + "x:y");
  EXPECT_EQ(refusal(IclTask::every, "[1, [2]]"), "--input: value 2, [2]," + no_number + "[x, y]");
  EXPECT_EQ(refusal(IclTask::every, "[\"1\"]"), "--input: value 1, \"1\"," + no_number + "[x, y]");
  EXPECT_EQ(refusal(IclTask::every, "[1] 2"), "--input: not valid JSON (byte 5)");
  EXPECT_EQ(refusal(IclTask::every, " ,\n"), "--input: holds no number");
  EXPECT_EQ(refusal(IclTask::every, "1,2:3"),
            "--input: value 2, \"2:3\", has a y, the values before lack it: give y for every x or "
            "for none");
  EXPECT_NE(refusal(IclTask::linear, "1,2").find("icl-linear has no rule that gives y"),
            std::string::npos);
}

}  // namespace
}  // namespace ssa
