#include "model/score_parameters.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "model/number_decoder.h"

namespace ssa {
namespace {

ModelConfig tiny_model(const std::string& score) {
  ModelConfig config;
  config.layers = 2;
  config.heads = 4;
  config.width = 16;
  config.max_positions = 32;
  config.score = score;
  return config;
}

TEST(ScoreParameters, StartAtTheScoresOwnValuesUnderEveryParametrisation) {
  for (const ScoreInfo& score : scores()) {
    for (const char* how : {"softplus", "exp", "raw"}) {
      ModelConfig config = tiny_model(std::string(score.name));
      config.parametrisation = choice_named<Parametrisation>("parametrisation", how);
      const auto layers = NumberDecoder(config).score_parameters();
      ASSERT_EQ(layers.size(), 2U);
      for (const auto& layer : layers) {
        ASSERT_EQ(layer.size(), score.params.size());
        for (std::size_t i = 0; i < layer.size(); ++i) {
          EXPECT_EQ(layer[i].name, score.params[i].name);
          ASSERT_EQ(layer[i].values.numel(), config.heads);
          // Two roundings to float (the stored weight, the value), the first magnified by at most
          // |dvalue/dweight · weight| <= max(weight, value) here.
          const double initial = score.params[i].initial;
          const double allowed = 4 * std::numeric_limits<float>::epsilon() * std::max(1.0, initial);
          EXPECT_NEAR(layer[i].values.min().item<double>(), initial, allowed) << how;
          EXPECT_NEAR(layer[i].values.max().item<double>(), initial, allowed) << how;
        }
      }
    }
  }
}

TEST(ScoreParameters, StoredWeightInvertsTheValueAcrossMagnitudes) {
  const ParamInfo n = find_score("ssa").params[0];
  for (const double above : {1e-6, 1e-3, 0.5, 1.0, 20.0, 1e4}) {
    for (const auto how : {Parametrisation::softplus, Parametrisation::exp, Parametrisation::raw}) {
      const double value = n.module_lower + above;
      const auto stored = torch::tensor({stored_weight(how, n, value)}, torch::kFloat64);
      // torch::softplus turns linear above 20, which leaves out log1p(e^-20) = 2.1e-9.
      EXPECT_NEAR(parameter_value(how, n, stored).item<double>(), value, 1e-12 * value + 2.1e-9);
    }
  }
  EXPECT_THROW(stored_weight(Parametrisation::softplus, n, 1.0), std::invalid_argument);
  EXPECT_THROW(stored_weight(Parametrisation::exp, n, 0.0), std::invalid_argument);
}

TEST(ScoreParameters, SoftplusKeepsTheLowerBoundWhateverTheWeight) {
  for (const ParamInfo& parameter : find_score("ssa").params) {
    const auto stored = torch::tensor({-1e4, -50.0, 0.0, 50.0}, torch::kFloat64);
    const auto values = parameter_value(Parametrisation::softplus, parameter, stored);
    EXPECT_GE(values.min().item<double>(), parameter.module_lower);
  }
}

TEST(ScoreParameters, NoWeightRoundsOntoTheEdgeOfTheRange) {
  for (const ScoreInfo& score : scores()) {
    for (const ParamInfo& parameter : score.params) {
      for (const auto how : {Parametrisation::softplus, Parametrisation::exp}) {
        for (const auto type : {torch::kFloat32, torch::kFloat64}) {
          auto stored = torch::tensor({-1e4, -800.0, -110.0, -17.0, 0.0, 80.0, 1e4},
                                      torch::TensorOptions(type))
                            .requires_grad_();
          const auto values = parameter_value(how, parameter, stored);
          EXPECT_EQ(values.scalar_type(), type);
          for (std::int64_t i = 0; i < values.numel(); ++i) {
            EXPECT_TRUE(parameter.allows(values[i].item<double>()))
                << score.name << ' ' << parameter.name << ' ' << values[i].item<double>();
          }
          values.slice(0, 0, 5).sum().backward();  // a weight at the edge can come back
          EXPECT_TRUE(torch::isfinite(stored.grad()).all().item<bool>());
          EXPECT_GE(stored.grad()[3].item<double>(), 1e-9) << score.name;
        }
      }
    }
  }
}

TEST(ScoreParameters, GradientIsThatOfTheParametrisation) {
  const ParamInfo n = find_score("ssa").params[0];
  const double w = 0.37, step = 1e-6;
  for (const auto how : {Parametrisation::softplus, Parametrisation::exp, Parametrisation::raw}) {
    auto stored = torch::tensor({w}, torch::kFloat64).requires_grad_();
    parameter_value(how, n, stored).sum().backward();
    const auto at = [&](double x) {
      return parameter_value(how, n, torch::tensor({x}, torch::kFloat64)).item<double>();
    };
    // Central difference: truncation step², rounding 2⁻⁵³/step.
    EXPECT_NEAR(stored.grad().item<double>(), (at(w + step) - at(w - step)) / (2 * step), 1e-9);
  }
}

TEST(ScoreParameters, FrozenOnesAreWeightsButNotParameters) {
  ModelConfig config = tiny_model("ssa");
  config.score_frozen = {"b"};
  config.score_share = ScoreShare::layer;
  config.score_initial = {2.0, 0.25};
  NumberDecoder model(config);
  const auto parameters = model.named_parameters();
  ASSERT_NE(parameters.find("h.1.attn.score_n"), nullptr);
  EXPECT_EQ(parameters["h.1.attn.score_n"].numel(), 1);
  EXPECT_EQ(parameters.find("h.1.attn.score_b"), nullptr);
  bool saved = false;
  for (const auto& [name, tensor] : model.named_weights()) {
    saved = saved || name == "h.1.attn.score_b";
  }
  EXPECT_TRUE(saved);

  model.initialize_weights(1);
  model.forward(torch::randn({2, 6, 1})).square().sum().backward();
  EXPECT_TRUE(model.named_parameters()["h.1.attn.score_n"].grad().abs().item<double>() > 0);
  EXPECT_NEAR(model.score_parameters()[1][1].values.item<double>(), 0.25, 1e-6);
}

TEST(ScoreParameters, TrainedOverridesTheScoresOwnChoice) {
  ModelConfig config = tiny_model("temperature");
  EXPECT_EQ(NumberDecoder(config).named_parameters().find("h.0.attn.score_tau"), nullptr);
  config.score_trained = {"tau"};
  EXPECT_NE(NumberDecoder(config).named_parameters().find("h.0.attn.score_tau"), nullptr);
}

}  // namespace
}  // namespace ssa
