// Keys and values of the tokens of a sequence that a decoder has read, so that the next ones need
// not read them again.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace ssa {

class KeyValueCache {
 public:
  /// Room for `capacity` tokens in every layer. The first tokens say how many heads there are, and
  /// the type.
  KeyValueCache(std::int64_t layers, std::int64_t capacity)
      : capacity_(capacity), keys_(layers), values_(layers) {}

  /// Tokens that all layers hold.
  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }

  /// Puts key and value of new tokens, (1, kv_heads, new, head dimension), after the layer's
  /// first length() ones and returns views of all that it then holds.
  std::pair<torch::Tensor, torch::Tensor> append(std::int64_t layer, const torch::Tensor& key,
                                                 const torch::Tensor& value);
  /// All layers hold `count` tokens more.
  void advance(std::int64_t count) { length_ += count; }

 private:
  std::int64_t length_ = 0, capacity_;
  std::vector<torch::Tensor> keys_, values_;
};

}  // namespace ssa
