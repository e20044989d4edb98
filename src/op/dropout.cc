#include "op/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>

#include "op/parallel.h"
#include "ssa/philox.h"

namespace ssa {

at::Tensor dropout_keeps(std::int64_t seed, double dropout, std::int64_t first_sequence,
                         std::int64_t batch, std::int64_t heads, std::int64_t first_row,
                         std::int64_t rows, std::int64_t columns, at::Device device) {
  at::Tensor keeps = at::empty({batch, heads, rows, columns}, at::kBool);
  bool* data = keeps.data_ptr<bool>();
  const std::uint32_t threshold = dropout_threshold(dropout);
  constexpr auto kGroup = static_cast<std::int64_t>(kDropoutGroup);
  at_parallel().run(batch * heads * rows, [&](std::int64_t index) {
    const auto sequence = static_cast<std::uint32_t>(first_sequence + index / rows / heads);
    const auto head = static_cast<std::uint32_t>(index / rows % heads);
    const auto row = static_cast<std::uint32_t>(first_row + index % rows);
    bool* line = data + index * columns;
    for (std::int64_t column = 0; column < columns; column += kGroup) {
      const auto words = dropout_words(static_cast<std::uint64_t>(seed), sequence, head, row,
                                       static_cast<std::uint32_t>(column / kGroup));
      const std::int64_t count = std::min(kGroup, columns - column);
      for (std::int64_t i = 0; i < count; ++i) line[column + i] = words[i] >= threshold;
    }
  });
  return keeps.to(device);
}

std::int64_t draw_dropout_seed() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return static_cast<std::int64_t>(
      at::check_generator<at::CPUGeneratorImpl>(generator)->random64() >> 1);
}

}  // namespace ssa
