// For the parity tests: runs the model, its loss and the optimizer on given weights and data,
// without dropout.
//
//   model_parity IN.safetensors OUT.safetensors
//
// IN: metadata "config" (a run's configuration as JSON) and "dtype" (float32, float64); weights by
// name; "inputs" and "targets": (batch, tokens, 1) and (batch, points) of the task, or token ids
// (batch, tokens) and the ids to predict, −100 where nothing is; "cu_lengths" where ids are packed.
// OUT: "output", "gradient.NAME" of every trained weight, and "losses" of train.steps optimizer
// steps on that one batch; with metadata "forward" the output alone. Without inputs: the initial
// weights by name. With metadata "checkpoint": the weights as the checkpoint of step 0 of the run
// folder it names, and nothing in OUT.
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>

#include "config/config.h"
#include "model/model.h"
#include "run/safetensors.h"
#include "tasks/task.h"
#include "train/checkpoint.h"
#include "train/optimizer.h"

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

/// The gradient of every trained weight under its name in files: what the weight is of a parameter,
/// its gradient is of the parameter's.
void add_gradients(const ssa::Model& model, TensorFile& out) {
  for (const auto& [name, weight] : model.named_weights()) {
    for (const torch::Tensor& parameter : model.parameters()) {
      if (!parameter.is_alias_of(weight)) continue;
      const torch::Tensor gradient = parameter.grad().contiguous();
      out.tensors.emplace_back(
          "gradient." + name,
          gradient.as_strided(weight.sizes(), weight.strides(), weight.storage_offset()));
    }
  }
}

/// loss(output, targets): the task's, of token ids the mean cross-entropy over the targets.
std::function<torch::Tensor(const torch::Tensor&, const torch::Tensor&)> loss_of(
    const ssa::Config& config) {
  if (config.model.input == ssa::InputKind::tokens) {
    return [](const torch::Tensor& output, const torch::Tensor& targets) {
      return torch::cross_entropy_loss(output.flatten(0, -2), targets.flatten(), {},
                                       at::Reduction::Mean, /*ignore_index=*/-100);
    };
  }
  return [task = std::shared_ptr<ssa::Task>(ssa::make_task(config))](const torch::Tensor& output,
                                                                     const torch::Tensor& targets) {
    return task->loss(output, {torch::Tensor(), targets});
  };
}

TensorFile run(const TensorFile& in) {
  const ssa::Config config = config_of(in);
  const auto model = ssa::make_model(config.model, config.train.seed);
  if (in.metadata.at("dtype") == "float64") model->to(torch::kFloat64);
  if (!in.find("inputs").defined() && !in.metadata.contains("checkpoint")) {
    return {model->named_weights(), {}};
  }

  copy_weights(in, *model);
  model->eval();
  TensorFile out;
  if (in.metadata.contains("forward")) {
    const torch::NoGradGuard no_grad;
    out.tensors.emplace_back("output", model->forward(in.find("inputs")));
    return out;
  }
  ssa::Optimizer optimizer(config.train, *model);
  if (in.metadata.contains("checkpoint")) {
    const std::filesystem::path folder = in.metadata.at("checkpoint");
    std::filesystem::create_directories(folder / "checkpoints");
    ssa::save_checkpoint(folder, {}, *model, optimizer);
    return out;
  }
  const ssa::ModelInput input(in.find("inputs"), in.find("cu_lengths"));
  const torch::Tensor targets = in.find("targets");
  const auto loss_function = loss_of(config);
  const torch::Tensor output = model->forward(input);
  loss_function(output, targets).backward();
  out.tensors.emplace_back("output", output.detach());
  add_gradients(*model, out);

  std::vector<double> losses;
  for (std::int64_t step = 0; step < config.train.steps; ++step) {
    optimizer.zero_gradients();
    const torch::Tensor loss = loss_function(model->forward(input), targets);
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
