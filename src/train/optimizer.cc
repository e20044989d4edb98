#include "train/optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <stdexcept>

namespace ssa {
namespace {

bool finite(const torch::Tensor& tensor) { return torch::isfinite(tensor).all().item<bool>(); }

}  // namespace

Optimizer::Optimizer(const TrainConfig& config, const Model& model) : config_(config) {
  for (const auto& item : model.named_parameters()) {
    const torch::Tensor& parameter = item.value();
    if (!parameter.requires_grad()) continue;
    const std::string& name = item.key();
    Item& one = items_.emplace_back();
    one.name = name;
    one.name_in_files = model.name_in_files(name);
    one.parameter = parameter;
    one.matrix_columns = model.matrix_columns(name);
    one.decays = model.decays(name);
    one.of_score = model.is_score_parameter(name);
    one.rule = &update_rule(config.optimizer, !one.matrix_columns.empty());
    for (std::size_t i = 0; i < one.rule->moments().size(); ++i) {
      one.moments.push_back(torch::zeros_like(parameter));
    }
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
  for (const Item& item : items_) {
    found.insert(found.end(), item.moments.begin(), item.moments.end());
  }
  return found;
}

double Optimizer::clip_gradients() {
  const std::vector<torch::Tensor> all = gradients();
  if (all.empty()) return 0.0;
  const double norm = torch::stack(at::_foreach_norm(all)).norm().item<double>();
  if (config_.clip > 0 && norm > config_.clip) at::_foreach_mul_(all, config_.clip / norm);
  return norm;
}

void Optimizer::drop_score_gradients() {
  for (Item& item : items_) {
    if (item.of_score) item.parameter.mutable_grad().reset();
  }
}

void Optimizer::step(double learning_rate) {
  ++steps_;
  const double share_of_score =
      config_.score_learning_rate > 0 ? config_.score_learning_rate / config_.learning_rate : 1.0;
  std::map<const UpdateRule*, std::vector<UpdatedParameter>> by_rule;
  for (const Item& item : items_) {
    if (!item.parameter.grad().defined()) continue;
    by_rule[item.rule].push_back(
        {.parameter = item.parameter,
         .gradient = item.parameter.grad(),
         .moments = item.moments,
         .matrix_columns = item.matrix_columns,
         .learning_rate = item.of_score ? learning_rate * share_of_score : learning_rate,
         .weight_decay = item.decays ? config_.weight_decay : 0.0});
  }
  const torch::NoGradGuard no_gradient;
  for (const auto& [rule, parameters] : by_rule) rule->update(parameters, config_, steps_);
}

std::string Optimizer::first_moment_not_finite() const {
  const auto found = std::ranges::find_if(items_, [](const Item& i) {
    return !std::ranges::all_of(i.moments, [](const torch::Tensor& m) { return finite(m); });
  });
  return found == items_.end() ? "" : found->name_in_files;
}

std::string Optimizer::first_gradient_not_finite() const {
  const auto found = std::ranges::find_if(items_, [](const Item& item) {
    return item.parameter.grad().defined() && !finite(item.parameter.grad());
  });
  return found == items_.end() ? "" : found->name_in_files;
}

std::string Optimizer::moment_name(const Item& item, std::size_t moment) {
  return std::string(item.rule->moments()[moment]) + "." + item.name;
}

void Optimizer::save(TensorFile& out) const {
  for (const Item& item : items_) {
    for (std::size_t i = 0; i < item.moments.size(); ++i) {
      out.tensors.emplace_back(moment_name(item, i), item.moments[i]);
    }
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
    for (std::size_t i = 0; i < item.moments.size(); ++i) {
      copy(item.moments[i], moment_name(item, i));
    }
  }
  steps_ = steps_done;
}

}  // namespace ssa
