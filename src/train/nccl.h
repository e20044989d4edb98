// NCCL, by its C interface: what torch's CUDA libraries bring along, found where they are loaded
// (model/device.h), so that the program links and includes nothing of CUDA. Has run on no device
// yet (docs/gpu.md).
#pragma once

#include <torch/types.h>

#include <array>

namespace ssa {

class Nccl {
 public:
  /// What the processes find each other by: ncclUniqueId.
  using Id = std::array<char, 128>;

  /// For the first process, which tells it to the others. Throws std::runtime_error where there is
  /// no NCCL.
  static Id make_id();

  /// Returns when all processes have come, each with a device of its own.
  Nccl(const Id& id, int rank, int size, torch::Device device);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  /// In place, of a contiguous tensor on the device; on its current stream, and nothing here waits
  /// for it.
  void sum(const torch::Tensor& tensor) const;
  void broadcast(const torch::Tensor& tensor) const;  ///< from the first process

 private:
  torch::Device device_;
  void* communicator_ = nullptr;
};

}  // namespace ssa
