#include "kernels/scratch.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>

namespace ssa {
namespace {

std::atomic<bool> fill_with_nan{false};

constexpr std::align_val_t kAlignment{64};

struct Free {
  void operator()(float* data) const { ::operator delete(data, kAlignment); }
};

struct Block {
  std::unique_ptr<float[], Free> data;
  std::int64_t size = 0;
};

Block& thread_block() {
  thread_local Block block;
  return block;
}

// 64 MiB; larger blocks go back to the system after each use.
constexpr std::int64_t kKeptFloats = 16 << 20;

}  // namespace

void fill_scratch_with_nan(bool fill) { fill_with_nan = fill; }

Scratch::Scratch(std::int64_t floats) {
  Block& block = thread_block();
  if (block.size < floats) {
    block.data.reset();
    const auto bytes = static_cast<std::size_t>(floats) * sizeof(float);
    block.data.reset(static_cast<float*>(::operator new(bytes, kAlignment)));
    block.size = floats;
  }
  next_ = block.data.get();
  end_ = next_ + floats;
  if (fill_with_nan) std::fill(next_, end_, std::numeric_limits<float>::quiet_NaN());
}

Scratch::~Scratch() {
  Block& block = thread_block();
  if (block.size > kKeptFloats) block = Block{};
}

float* Scratch::take(std::int64_t floats) {
  float* piece = next_;
  next_ += size_of(floats);
  if (next_ > end_) std::abort();  // a kernel asked for less than it takes
  return piece;
}

}  // namespace ssa
