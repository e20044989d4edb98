#include "kernels/scratch.h"

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>

namespace ssa {
namespace {

std::atomic<bool> fill_with_nan{false};

struct Block {
  hwy::AlignedFreeUniquePtr<float[]> data;
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
    block.data = hwy::AllocateAligned<float>(static_cast<std::size_t>(floats));
    if (block.data == nullptr) throw std::bad_alloc();
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
