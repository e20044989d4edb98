// The processes that train one model together, as torchrun starts them: c10d over Gloo, for tensors
// on CUDA devices NCCL.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ssa {

/// All members are to be called by every process, in the same order and with tensors of the same
/// sizes; with one process they do nothing. They throw std::runtime_error naming the ranks that are
/// gone. A process that gives no sign for 15 s, while the others wait for it or compute, ends them
/// with a line that names it.
class Processes {
 public:
  /// Joins those that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT tell of, over the interface
  /// that GLOO_SOCKET_IFNAME names, if it does; without WORLD_SIZE this process is alone. Throws
  /// std::runtime_error naming the variable that is missing or wrong, or if not all have come after
  /// a minute.
  Processes();
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Which of the processes of its machine this one is: LOCAL_RANK. 0 where it is alone. Throws
  /// std::runtime_error if torchrun does not say.
  int local_rank() const;
  /// Where this process's tensors are, beside those on the CPU. Of several processes each has a
  /// device of its own; returns when all have come.
  void use_device(torch::Device device);
  /// The process that writes the run folder.
  bool is_first() const { return rank_ == 0; }

  /// Makes each of these the sum over all processes, with the same bits in every one. In buckets of
  /// 25 MB, as PyTorch's DistributedDataParallel has them.
  void sum(const std::vector<torch::Tensor>& tensors);

  /// Makes each of these (contiguous) what it is in the first process.
  void broadcast(const std::vector<torch::Tensor>& tensors);

  /// Throws in every process unless all of them say the same here; `what` names it.
  void require_same(std::uint64_t hash, const std::string& what);

  /// Returns when all have come.
  void meet();

  /// What the process does before it ends because another one is gone and the thread that trains
  /// may wait for that one without end. `tell` is called with the reason, on a thread of its own;
  /// an empty one takes it back.
  void before_lost(std::function<void(const std::string&)> tell);

 private:
  struct Group;

  int rank_ = 0, size_ = 1;
  std::unique_ptr<Group> group_;  // null where this process is alone
};

}  // namespace ssa
