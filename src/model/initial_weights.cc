#include "model/initial_weights.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>

#include "config/fnv1a.h"
#include "ssa/random.h"

namespace ssa {
namespace {

/// parameter[4·block + i] = four(counter of the block)[i]
template <class Four>
void fill(torch::Tensor parameter, const std::string& name, const Four& four) {
  TORCH_CHECK(parameter.is_contiguous(), "parameter ", name, " is not contiguous");
  const std::uint64_t hash = fnv1a(name);
  const std::int64_t size = parameter.numel();
  const torch::NoGradGuard no_grad;
  AT_DISPATCH_FLOATING_TYPES(parameter.scalar_type(), "initial_weights", [&] {
    scalar_t* data = parameter.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, (size + 3) / 4, 1024, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const std::array<double, 4> values =
            four({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(hash),
                  static_cast<std::uint32_t>(hash >> 32),
                  static_cast<std::uint32_t>(RandomStream::weights)});
        for (std::int64_t i = 4 * block; i < std::min(4 * block + 4, size); ++i) {
          data[i] = static_cast<scalar_t>(values[i - 4 * block]);
        }
      }
    });
  });
}

}  // namespace

void draw_normal(torch::Tensor parameter, const std::string& name, std::uint64_t seed,
                 double deviation) {
  fill(parameter, name, [&](const PhiloxWords& counter) {
    std::array<double, 4> values = normal_deviates(seed, counter);
    for (double& value : values) value *= deviation;
    return values;
  });
}

void draw_uniform(torch::Tensor parameter, const std::string& name, std::uint64_t seed,
                  double bound) {
  fill(parameter, name, [&](const PhiloxWords& counter) {
    const PhiloxWords words = philox4x32(seed, counter);
    std::array<double, 4> values;
    for (int i = 0; i < 4; ++i) values[i] = bound * (2 * philox_unit(words[i]) - 1);
    return values;
  });
}

}  // namespace ssa
