#include "train/optimizer.h"

#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "fake_model.h"

namespace ssa {
namespace {

/// Two parameters under the optimizer: decay touches "matrix" only.
class TwoParameters : public test::FakeModel {
 public:
  explicit TwoParameters(torch::ScalarType dtype) {
    const auto generator = torch::make_generator<at::CPUGeneratorImpl>(5);
    matrix = register_parameter("matrix", torch::randn({7, 5}, generator).to(dtype));
    vector = register_parameter("vector", torch::randn({5}, generator).to(dtype));
    fixed = register_parameter("fixed", torch::ones({2}, dtype), /*requires_grad=*/false);
  }
  torch::Tensor forward(const ModelInput& input) override { return input.tokens; }
  std::vector<std::pair<std::string, torch::Tensor>> named_weights() const override {
    return {{"matrix", matrix}, {"vector", vector}};
  }
  bool decays(const std::string& name) const override { return name == "matrix"; }
  std::vector<std::int64_t> matrix_columns(const std::string& name) const override {
    return name == "matrix" ? std::vector<std::int64_t>{3, 2} : std::vector<std::int64_t>{};
  }
  bool is_score_parameter(const std::string& name) const override { return name == "vector"; }

  /// A loss whose gradients differ in size and change from step to step.
  void backward(int step) {
    ((matrix * matrix).sum() * (step + 1) + (vector.sin() * 1e-3).sum()).backward();
  }

  torch::Tensor matrix, vector, fixed;

 private:
};

/// matrix and vector after ten steps of ours.
std::vector<torch::Tensor> ours_after_ten(const TrainConfig& config, torch::ScalarType dtype) {
  TwoParameters model(dtype);
  Optimizer optimizer(config, model);
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_gradients();
    model.backward(step);
    optimizer.step(config.learning_rate);
  }
  EXPECT_TRUE(model.fixed.equal(torch::ones({2}, dtype)));
  return {model.matrix.detach(), model.vector.detach()};
}

/// The same by torch::optim.
template <class Optim, class Options>
std::vector<torch::Tensor> torch_after_ten(const TrainConfig& config, torch::ScalarType dtype) {
  TwoParameters model(dtype);
  const auto options = [&](double decay) {
    return std::make_unique<Options>(Options(config.learning_rate)
                                         .betas({config.beta1, config.beta2})
                                         .eps(config.epsilon)
                                         .weight_decay(decay));
  };
  Optim optimizer({torch::optim::OptimizerParamGroup({model.matrix}, options(config.weight_decay)),
                   torch::optim::OptimizerParamGroup({model.vector}, options(0.0))},
                  *options(0.0));
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    model.backward(step);
    optimizer.step();
  }
  return {model.matrix.detach(), model.vector.detach()};
}

double largest_error(const torch::Tensor& value, const torch::Tensor& truth) {
  return (value.to(torch::kFloat64) - truth).abs().max().item<double>();
}

template <class Optim, class Options>
void expect_as_good_as_torch(OptimizerKind kind) {
  TrainConfig config;
  config.optimizer = kind;
  config.learning_rate = 0.05;
  config.weight_decay = 0.1;
  const std::vector<torch::Tensor> truth = torch_after_ten<Optim, Options>(config, torch::kFloat64);
  const std::vector<torch::Tensor> torch32 =
      torch_after_ten<Optim, Options>(config, torch::kFloat32);
  const auto ours32 = ours_after_ten(config, torch::kFloat32);
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double floor = 4 * std::ldexp(1.0, -23) * truth[i].abs().max().item<double>();
    EXPECT_LE(largest_error(ours32[i], truth[i]), 2 * largest_error(torch32[i], truth[i]) + floor);
  }
}

TEST(Optimizer, AdamIsAsGoodAsTorchs) {
  expect_as_good_as_torch<torch::optim::Adam, torch::optim::AdamOptions>(OptimizerKind::adam);
}

TEST(Optimizer, AdamWIsAsGoodAsTorchs) {
  expect_as_good_as_torch<torch::optim::AdamW, torch::optim::AdamWOptions>(OptimizerKind::adamw);
}

TEST(Optimizer, WithoutBiasCorrectionFirstStepIsTheFormula) {
  TrainConfig config;
  config.optimizer = OptimizerKind::adamw;
  config.bias_correction = false;
  TwoParameters model(torch::kFloat64);
  const torch::Tensor before = model.matrix.detach().clone();
  Optimizer optimizer(config, model);
  model.backward(0);
  const torch::Tensor gradient = model.matrix.grad().clone();
  optimizer.step(0.1);
  // m = (1 - beta1) g, v = (1 - beta2) g^2; update lr m / (sqrt(v) + eps)
  const torch::Tensor expected =
      before - 0.1 * 0.1 * gradient / ((0.001 * gradient * gradient).sqrt() + 1e-8);
  EXPECT_TRUE(torch::allclose(model.matrix.detach(), expected, 1e-12, 0));
}

/// What five Newton-Schulz steps make of a matrix, by its singular values.
torch::Tensor by_singular_values(const torch::Tensor& matrix) {
  auto [u, s, v] = torch::linalg_svd(matrix, /*full_matrices=*/false);
  s = s / matrix.norm();
  for (int i = 0; i < 5; ++i) s = 3.4445 * s - 4.7750 * s.pow(3) + 2.0315 * s.pow(5);
  return torch::mm(u * s, v);
}

TEST(Optimizer, MuonsMatricesAreOrthogonalizedOneByOne) {
  TrainConfig config;
  config.optimizer = OptimizerKind::muon;
  config.weight_decay = 0.1;
  TwoParameters model(torch::kFloat64), adamw(torch::kFloat64);
  Optimizer optimizer(config, model);
  torch::Tensor expected = model.matrix.detach().clone(), momentum = torch::zeros_like(expected);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_gradients();
    model.backward(step);
    const torch::Tensor gradient = model.matrix.grad().clone();
    momentum = 0.95 * momentum + 0.05 * gradient;
    const torch::Tensor direction = 0.05 * gradient + 0.95 * momentum;
    expected = expected * (1 - 0.01 * 0.1) -
               0.01 * 0.2 * std::sqrt(7.0) *
                   torch::cat({by_singular_values(direction.narrow(1, 0, 3)),
                               by_singular_values(direction.narrow(1, 3, 2))},
                              1);
    optimizer.step(0.01);
  }
  EXPECT_TRUE(torch::allclose(model.matrix.detach(), expected, 1e-9, 1e-12));
  // The rest is AdamW's, without decay.
  TrainConfig other = config;
  other.optimizer = OptimizerKind::adamw;
  Optimizer beside(other, adamw);
  for (int step = 0; step < 3; ++step) {
    beside.zero_gradients();
    adamw.backward(step);
    beside.step(0.01);
  }
  EXPECT_TRUE(model.vector.equal(adamw.vector));
  TensorFile kept;
  optimizer.save(kept);
  ASSERT_EQ(kept.tensors.size(), 3);
  EXPECT_EQ(kept.tensors[0].first, "momentum.matrix");
  EXPECT_EQ(kept.tensors[1].first, "first_moment.vector");
  EXPECT_EQ(kept.tensors[2].first, "second_moment.vector");
}

TEST(Optimizer, OrthogonalizedHasSingularValuesNearOne) {
  torch::manual_seed(2);
  for (const auto& [rows, columns] : {std::pair(40, 24), std::pair(24, 40), std::pair(32, 32)}) {
    const torch::Tensor made = orthogonalized(torch::randn({rows, columns}));
    EXPECT_EQ(made.sizes(), (std::vector<std::int64_t>{rows, columns}));
    const torch::Tensor values = torch::linalg_svdvals(made, {});
    EXPECT_LT(values.max().item<double>(), 1.25);
    EXPECT_GT(values.median().item<double>(), 0.65);
  }
  EXPECT_TRUE(orthogonalized(torch::zeros({3, 2})).equal(torch::zeros({3, 2})));
}

TEST(Optimizer, ScoresHaveTheirOwnLearningRateAndMayBeHeld) {
  TrainConfig config;
  config.learning_rate = 0.1;
  config.score_learning_rate = 0.3;
  TwoParameters model(torch::kFloat64), plain(torch::kFloat64);
  TrainConfig faster = config;
  faster.score_learning_rate = 0;
  Optimizer own(config, model), same(faster, plain);
  for (auto* one : {&model, &plain}) one->backward(0);
  own.step(0.05);  // half of the course: scores have 0.15
  same.step(0.15);
  EXPECT_TRUE(torch::allclose(model.vector.detach(), plain.vector.detach(), 1e-12, 0));
  EXPECT_FALSE(model.matrix.equal(plain.matrix));
  const torch::Tensor before = model.vector.detach().clone();
  model.backward(1);
  own.drop_score_gradients();
  own.step(0.05);
  EXPECT_TRUE(model.vector.equal(before));
}

TEST(Optimizer, ClippingScalesToTheLimitAndReportsTheNorm) {
  TrainConfig config;
  config.clip = 0.5;
  TwoParameters model(torch::kFloat64);
  Optimizer optimizer(config, model);
  model.backward(0);
  const double norm =
      torch::cat({model.matrix.grad().flatten(), model.vector.grad()}).norm().item<double>();
  ASSERT_GT(norm, 0.5);
  EXPECT_NEAR(optimizer.clip_gradients(), norm, 1e-12 * norm);
  EXPECT_NEAR(optimizer.clip_gradients(), 0.5, 1e-12);
  EXPECT_NEAR(optimizer.clip_gradients(), 0.5, 1e-12);  // at the limit nothing is scaled
}

TEST(Optimizer, StateSurvivesAFile) {
  TrainConfig config;
  TwoParameters straight(torch::kFloat32), resumed(torch::kFloat32);
  Optimizer first(config, straight);
  for (int step = 0; step < 3; ++step) {
    first.zero_gradients();
    straight.backward(step);
    first.step(0.01);
  }
  TensorFile content;
  first.save(content);
  const torch::NoGradGuard no_gradient;
  resumed.matrix.copy_(straight.matrix);
  resumed.vector.copy_(straight.vector);
  Optimizer second(config, resumed);
  second.load(content, 3, "trainer.safetensors");
  const torch::AutoGradMode gradient(true);
  for (auto [optimizer, model] : {std::pair(&first, &straight), std::pair(&second, &resumed)}) {
    optimizer->zero_gradients();
    model->backward(3);
    optimizer->step(0.01);
  }
  EXPECT_TRUE(straight.matrix.equal(resumed.matrix));
  EXPECT_TRUE(straight.vector.equal(resumed.vector));
}

TEST(Optimizer, StateOfAnotherModelIsRefused) {
  TwoParameters model(torch::kFloat32);
  Optimizer optimizer({}, model);
  TensorFile content;
  optimizer.save(content);
  content.tensors[0].second = torch::zeros({2});
  EXPECT_THROW(optimizer.load(content, 1, "x"), std::runtime_error);
  content.tensors.erase(content.tensors.begin());
  EXPECT_THROW(optimizer.load(content, 1, "x"), std::runtime_error);
}

TEST(Optimizer, FirstNotFiniteNamesTheParameter) {
  TwoParameters model(torch::kFloat32);
  Optimizer optimizer({}, model);
  model.backward(0);
  optimizer.step(1e-3);
  EXPECT_EQ(optimizer.first_moment_not_finite(), "");
  EXPECT_EQ(optimizer.first_gradient_not_finite(), "");
  model.vector.mutable_grad()[1] = NAN;
  EXPECT_EQ(optimizer.first_gradient_not_finite(), "vector");
  optimizer.step(1e-3);
  EXPECT_EQ(optimizer.first_moment_not_finite(), "vector");
}

}  // namespace
}  // namespace ssa
