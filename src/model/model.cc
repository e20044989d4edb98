#include "model/model.h"

#include "model/decoder.h"
#include "model/encoder.h"

namespace ssa {
namespace {

template <class Kind>
std::shared_ptr<Model> initialized(const ModelConfig& config, std::uint64_t seed) {
  auto model = std::make_shared<Kind>(config);
  model->initialize_weights(seed);
  return model;
}

}  // namespace

std::shared_ptr<Model> make_model(const ModelConfig& config, std::uint64_t seed) {
  return config.input == "tokens" ? initialized<Encoder>(config, seed)
                                  : initialized<Decoder>(config, seed);
}

}  // namespace ssa
