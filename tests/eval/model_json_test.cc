#include "eval/model_json.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <string>

namespace ssa {
namespace {

TEST(TensorJson, KeepsTheShapeAndSaysNoMoreDigitsThanNeeded) {
  const torch::Tensor values = torch::tensor({0.8F, 100.0F, 1e-30F, -1.0F / 3}).view({2, 2});
  EXPECT_EQ(to_json(values).dump(), "[[0.8,100.0],[1e-30,-0.33333334]]");
  EXPECT_EQ(to_json(values.t()).dump(), "[[0.8,1e-30],[100.0,-0.33333334]]");
  EXPECT_EQ(to_json(torch::tensor(0.1F)).dump(), "0.1");
  EXPECT_EQ(to_json(torch::empty({0})).dump(), "[]");
}

TEST(TensorJson, NumbersThatAreNotFiniteAreNull) {
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_json(torch::tensor({infinite, -infinite, std::nanf(""), 1.0F})).dump(),
            "[null,null,null,1.0]");
}

TEST(ScoreParametersJson, OneValueAHeadOrOneALayer) {
  ModelConfig config;
  config.layers = 2;
  config.heads = 4;
  config.width = 8;
  config.score_initial = {1.25, 0.5};
  config.parametrisation = Parametrisation::raw;
  const std::string layer = R"({"n":[1.25,1.25,1.25,1.25],"b":[0.5,0.5,0.5,0.5]})";
  EXPECT_EQ(score_parameters_json(*make_model(config, 1)).dump(), "[" + layer + "," + layer + "]");
  config.score_share = ScoreShare::layer;
  EXPECT_EQ(score_parameters_json(*make_model(config, 1)).dump(),
            R"([{"n":[1.25],"b":[0.5]},{"n":[1.25],"b":[0.5]}])");
  config.score = "softmax";
  config.score_initial = {};
  EXPECT_EQ(score_parameters_json(*make_model(config, 1)).dump(), "[{},{}]");
}

}  // namespace
}  // namespace ssa
