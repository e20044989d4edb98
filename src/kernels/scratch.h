// Working memory of the kernels: one growing block per thread, kept between calls, because a small
// problem (128 heads of length 12 take 50 µs in all) would spend its time in the allocator.
#pragma once

#include <cstdint>

namespace ssa {

/// Tests set this: every block handed out is then filled with NaN first.
void fill_scratch_with_nan(bool fill);

/// Hands out pieces of this thread's block, each aligned to 64 bytes and padded to a multiple of
/// it. At most one object per thread lives at a time.
class Scratch {
 public:
  explicit Scratch(std::int64_t floats);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  float* take(std::int64_t floats);

  /// What take(floats) uses up.
  static std::int64_t size_of(std::int64_t floats) { return (floats + 15) / 16 * 16; }

 private:
  float* next_;
  float* end_;
};

}  // namespace ssa
