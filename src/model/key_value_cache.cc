#include "model/key_value_cache.h"

#include <torch/types.h>

#include "ssa/check.h"

namespace ssa {

std::pair<torch::Tensor, torch::Tensor> KeyValueCache::append(std::int64_t layer,
                                                              const torch::Tensor& key,
                                                              const torch::Tensor& value) {
  const std::int64_t all = length_ + key.size(2);
  SSA_CHECK(all <= capacity(),
            "model: " << all << " tokens, but the key/value cache has room for " << capacity());
  const auto put = [&](torch::Tensor& held, const torch::Tensor& more) {
    if (!held.defined()) {
      held = torch::empty({more.size(0), more.size(1), capacity_, more.size(3)}, more.options());
    }
    held.narrow(2, length_, more.size(2)).copy_(more);
    return held.narrow(2, 0, all);
  };
  return {put(keys_[static_cast<std::size_t>(layer)], key),
          put(values_[static_cast<std::size_t>(layer)], value)};
}

}  // namespace ssa
