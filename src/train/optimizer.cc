#include "train/optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <stdexcept>

namespace ssa {
namespace {

bool finite(const torch::Tensor& tensor) { return torch::isfinite(tensor).all().item<bool>(); }

}  // namespace

Optimizer::Optimizer(const TrainConfig& config, const Model& model) : config_(config) {
  for (const auto& item : model.named_parameters()) {
    const torch::Tensor& parameter = item.value();
    if (!parameter.requires_grad()) continue;
    items_.push_back({item.key(), parameter, torch::zeros_like(parameter),
                      torch::zeros_like(parameter), model.decays(item.key())});
  }
}

void Optimizer::zero_gradients() {
  for (Item& item : items_) item.parameter.mutable_grad().reset();
}

std::vector<torch::Tensor> Optimizer::gradients() const {
  std::vector<torch::Tensor> found;
  for (const Item& item : items_) {
    if (item.parameter.grad().defined()) found.push_back(item.parameter.grad());
  }
  return found;
}

std::vector<torch::Tensor> Optimizer::moments() const {
  std::vector<torch::Tensor> found;
  for (const Item& item : items_) found.insert(found.end(), {item.first, item.second});
  return found;
}

double Optimizer::clip_gradients() {
  const std::vector<torch::Tensor> all = gradients();
  if (all.empty()) return 0.0;
  const double norm = torch::stack(at::_foreach_norm(all)).norm().item<double>();
  if (config_.clip > 0 && norm > config_.clip) at::_foreach_mul_(all, config_.clip / norm);
  return norm;
}

void Optimizer::step(double learning_rate) {
  ++steps_;
  // The fused kernels correct by 1 - beta^step: at step 10^9 that is 1, i.e. no correction.
  const double counted = config_.bias_correction ? static_cast<double>(steps_) : 1e9;
  const torch::NoGradGuard no_gradient;
  for (const bool decays : {true, false}) {
    std::vector<torch::Tensor> parameters, gradients, first, second, steps;
    for (const Item& item : items_) {
      if (item.decays != decays || !item.parameter.grad().defined()) continue;
      parameters.push_back(item.parameter);
      gradients.push_back(item.parameter.grad());
      first.push_back(item.first);
      second.push_back(item.second);
      steps.push_back(torch::tensor(counted, torch::kFloat32));
    }
    if (parameters.empty()) continue;
    const auto update = config_.optimizer == "adamw" ? &at::_ops::_fused_adamw_::call
                                                     : &at::_ops::_fused_adam_::call;
    update(parameters, gradients, first, second, {}, steps, learning_rate, config_.beta1,
           config_.beta2, decays ? config_.weight_decay : 0.0, config_.epsilon, /*amsgrad=*/false,
           /*maximize=*/false, {}, {});
  }
}

std::string Optimizer::first_moment_not_finite() const {
  const auto found = std::ranges::find_if(
      items_, [](const Item& i) { return !finite(i.first) || !finite(i.second); });
  return found == items_.end() ? "" : found->name;
}

std::string Optimizer::first_gradient_not_finite() const {
  const auto found = std::ranges::find_if(items_, [](const Item& item) {
    return item.parameter.grad().defined() && !finite(item.parameter.grad());
  });
  return found == items_.end() ? "" : found->name;
}

void Optimizer::save(TensorFile& out) const {
  for (const Item& item : items_) {
    out.tensors.emplace_back("first_moment." + item.name, item.first);
    out.tensors.emplace_back("second_moment." + item.name, item.second);
  }
}

void Optimizer::load(const TensorFile& content, std::int64_t steps_done, const std::string& file) {
  const torch::NoGradGuard no_gradient;
  const auto copy = [&](torch::Tensor& moment, const std::string& name) {
    const torch::Tensor stored = content.find(name);
    if (!stored.defined() || stored.sizes() != moment.sizes() ||
        stored.scalar_type() != moment.scalar_type()) {
      throw std::runtime_error(
          fmt::format("{}: \"{}\" is missing or not of shape {}", file, name,
                      fmt::join(moment.sizes().begin(), moment.sizes().end(), " x ")));
    }
    if (!finite(stored)) {
      throw std::runtime_error(
          fmt::format("{}: \"{}\" holds numbers that are not finite", file, name));
    }
    moment.copy_(stored);
  };
  for (Item& item : items_) {
    copy(item.first, "first_moment." + item.name);
    copy(item.second, "second_moment." + item.name);
  }
  steps_ = steps_done;
}

}  // namespace ssa
