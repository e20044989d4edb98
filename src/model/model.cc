#include "model/model.h"

#include "model/encoder.h"
#include "model/language_decoder.h"
#include "model/number_decoder.h"

namespace ssa {
namespace {

template <class Kind>
std::shared_ptr<Model> initialized(const ModelConfig& config, std::uint64_t seed) {
  auto model = std::make_shared<Kind>(config);
  model->initialize_weights(seed);
  return model;
}

}  // namespace

std::int64_t count_parameters(const Model& model) {
  std::int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter.numel();
  return count;
}

std::shared_ptr<Model> make_model(const ModelConfig& config, std::uint64_t seed) {
  if (config.input != "tokens") return initialized<NumberDecoder>(config, seed);
  return config.norm_place == "after" ? initialized<Encoder>(config, seed)
                                      : initialized<LanguageDecoder>(config, seed);
}

}  // namespace ssa
