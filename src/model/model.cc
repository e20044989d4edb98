#include "model/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include "model/device.h"
#include "model/encoder.h"
#include "model/language_decoder.h"
#include "model/number_decoder.h"
#include "ssa/check.h"

namespace ssa {
namespace {

template <class Kind>
std::shared_ptr<Model> initialized(const ModelConfig& config, std::optional<std::uint64_t> seed) {
  auto model = std::make_shared<Kind>(config);
  if (seed) model->initialize_weights(*seed);
  return model;
}

}  // namespace

torch::Device Model::device() const {
  const auto all = parameters();
  return all.empty() ? torch::Device(torch::kCPU) : all.front().device();
}

torch::Tensor Model::losses(const torch::Tensor& hidden, const torch::Tensor& targets) {
  return torch::cross_entropy_loss(logits(hidden), on_device(targets, hidden.device()), {},
                                   at::Reduction::None);
}

torch::Tensor Model::forward(const ModelInput& input) {
  const torch::Tensor out = logits(hidden(input));
  if (input.cu_lengths.defined() || input.wanted.defined()) return out;
  return out.view({input.tokens.size(0), input.tokens.size(1), out.size(1)});
}

std::string Model::name_in_files(const std::string& parameter_name) const {
  const auto parameters = named_parameters();
  const torch::Tensor* parameter = parameters.find(parameter_name);
  std::vector<std::string> names;
  for (const auto& [name, weight] : named_weights()) {
    if (parameter != nullptr && weight.is_alias_of(*parameter)) names.push_back(name);
  }
  return names.empty() ? parameter_name : fmt::format("{}", fmt::join(names, ", "));
}

std::int64_t count_parameters(const Model& model) {
  std::int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter.numel();
  return count;
}

std::shared_ptr<Model> make_model(const ModelConfig& config, std::optional<std::uint64_t> seed) {
  switch (config.family) {
    case Family::number:
      return initialized<NumberDecoder>(config, seed);
    case Family::gpt2:
    case Family::nemotron:
    case Family::llama:
      return initialized<LanguageDecoder>(config, seed);
    case Family::roberta:
    case Family::bert:
      return initialized<Encoder>(config, seed);
  }
  SSA_CHECK(false, "model: a family without a class");
  return nullptr;
}

}  // namespace ssa
