// For test_parity.py: runs the model, its task's loss and the optimizer on given weights and data.
//
//   model_parity IN.safetensors OUT.safetensors
//
// IN: metadata "config" (a run's configuration as JSON) and "dtype" (float32, float64); weights by
// name; "inputs" (batch, tokens, 1) and "targets" (batch, points).
// OUT: "output", "gradient.NAME" of every parameter, and "losses" of train.steps optimizer steps on
// that one batch. Without inputs: the initial weights by name.
#include <torch/torch.h>

#include <cstdlib>
#include <exception>
#include <iostream>

#include "config/config.h"
#include "model/model.h"
#include "tasks/task.h"
#include "train/optimizer.h"
#include "train/safetensors.h"

namespace {

using ssa::TensorFile;

ssa::Config config_of(const TensorFile& in) {
  return ssa::config_from_json(ssa::Json::parse(in.metadata.at("config")), "config");
}

void copy_weights(const TensorFile& in, ssa::Model& model) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, weight] : model.named_weights()) {
    const torch::Tensor given = in.find(name);
    TORCH_CHECK(given.defined(), "no weight ", name);
    TORCH_CHECK(given.sizes() == weight.sizes(), name, ": ", given.sizes(), " given, ",
                weight.sizes(), " expected");
    weight.copy_(given);
  }
}

TensorFile run(const TensorFile& in) {
  const ssa::Config config = config_of(in);
  const auto model = ssa::make_model(config.model, config.train.seed);
  if (in.metadata.at("dtype") == "float64") model->to(torch::kFloat64);
  if (!in.find("inputs").defined()) return {model->named_weights(), {}};

  copy_weights(in, *model);
  const auto task = ssa::make_task(config);
  const ssa::Batch batch{in.find("inputs"), in.find("targets")};
  TensorFile out;
  const torch::Tensor output = model->forward(batch.inputs);
  task->loss(output, batch).backward();
  out.tensors.emplace_back("output", output.detach());
  for (const auto& parameter : model->named_parameters()) {
    out.tensors.emplace_back("gradient." + parameter.key(), parameter.value().grad());
  }

  ssa::Optimizer optimizer(config.train, *model);
  std::vector<double> losses;
  for (std::int64_t step = 0; step < config.train.steps; ++step) {
    optimizer.zero_gradients();
    const torch::Tensor loss = task->loss(model->forward(batch.inputs), batch);
    loss.backward();
    optimizer.step(config.train.learning_rate);
    losses.push_back(loss.item<double>());
  }
  out.tensors.emplace_back("losses", torch::tensor(losses, torch::kFloat64));
  return out;
}

}  // namespace

int main(int count, char** arguments) try {
  TORCH_CHECK(count == 3, "usage: model_parity IN.safetensors OUT.safetensors");
  ssa::write_safetensors(arguments[2], run(ssa::read_safetensors(arguments[1])));
  return EXIT_SUCCESS;
} catch (const std::exception& error) {
  std::cerr << "model_parity: " << error.what() << '\n';
  return EXIT_FAILURE;
}
