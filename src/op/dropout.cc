#include "op/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "op/parallel.h"
#include "ssa/philox.h"

namespace ssa {

namespace {

/// dropout_words by tensor operations: every 32-bit word in an int64.
at::Tensor words_on_device(const at::Tensor& seed, std::int64_t first_sequence, std::int64_t batch,
                           std::int64_t heads, std::int64_t first_row, std::int64_t rows,
                           std::int64_t columns, at::Device device) {
  constexpr std::int64_t kLow = 0xffffffff, kLanes = 16;
  const at::TensorOptions longs = at::TensorOptions(device).dtype(at::kLong);
  const std::int64_t groups = (columns + kLanes * 4 - 1) / (kLanes * 4);
  // A number of the CPU is filled in: a copy would wait for the device.
  const at::Tensor here =
      seed.is_cpu() ? at::full({}, seed.item<std::int64_t>(), longs) : seed.to(device);
  const at::Tensor key = here.view({1, 1, 1, 1});
  at::Tensor key0 = key & kLow, key1 = at::bitwise_right_shift(key, 32) & kLow;
  at::Tensor counter[4] = {
      at::arange(first_sequence, first_sequence + batch, longs).view({-1, 1, 1, 1}),
      at::arange(heads, longs).view({1, -1, 1, 1}),
      at::arange(first_row, first_row + rows, longs).view({1, 1, -1, 1}),
      at::arange(groups * kLanes, longs).view({1, 1, 1, -1})};
  for (int round = 0; round < kPhiloxRounds; ++round) {
    // The low 64 bits of the product; as an int64 it may be negative, so its shift is masked.
    const at::Tensor product0 = counter[0] * std::int64_t{kPhiloxMultipliers[0]};
    const at::Tensor product1 = counter[2] * std::int64_t{kPhiloxMultipliers[1]};
    counter[0] = (at::bitwise_right_shift(product1, 32) & kLow) ^ counter[1] ^ key0;
    counter[1] = product1 & kLow;
    counter[2] = (at::bitwise_right_shift(product0, 32) & kLow) ^ counter[3] ^ key1;
    counter[3] = product0 & kLow;
    key0 = (key0 + std::int64_t{kPhiloxWeyl[0]}) & kLow;
    key1 = (key1 + std::int64_t{kPhiloxWeyl[1]}) & kLow;
  }
  // Word w of lane l of group g belongs to column 64·g + 16·w + l.
  std::vector<at::Tensor> words;
  for (const at::Tensor& word : counter) {
    words.push_back(word.expand({batch, heads, rows, groups * kLanes})
                        .reshape({batch, heads, rows, groups, kLanes}));
  }
  return at::stack(words, 4).flatten(3).narrow(3, 0, columns);
}

}  // namespace

at::Tensor dropout_keeps_by_tensors(const at::Tensor& seed, double dropout,
                                    std::int64_t first_sequence, std::int64_t batch,
                                    std::int64_t heads, std::int64_t first_row, std::int64_t rows,
                                    std::int64_t columns, at::Device device) {
  return words_on_device(seed, first_sequence, batch, heads, first_row, rows, columns, device) >=
         std::int64_t{dropout_threshold(dropout)};
}

at::Tensor dropout_keeps(const at::Tensor& seed_tensor, double dropout, std::int64_t first_sequence,
                         std::int64_t batch, std::int64_t heads, std::int64_t first_row,
                         std::int64_t rows, std::int64_t columns, at::Device device) {
  if (!device.is_cpu()) {
    return dropout_keeps_by_tensors(seed_tensor, dropout, first_sequence, batch, heads, first_row,
                                    rows, columns, device);
  }
  const std::int64_t seed = seed_tensor.item<std::int64_t>();
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
  return keeps;
}

std::int64_t draw_dropout_seed() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return static_cast<std::int64_t>(
      at::check_generator<at::CPUGeneratorImpl>(generator)->random64() >> 1);
}

at::Tensor draw_dropout_seed(at::Device device, bool traced) {
  if (device.is_cpu() && !traced) return at::scalar_tensor(draw_dropout_seed(), at::kLong);
  return at::randint(std::numeric_limits<std::int64_t>::max(), {},
                     at::TensorOptions(device).dtype(at::kLong));
}

}  // namespace ssa
