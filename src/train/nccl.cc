#include "train/nccl.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <stdexcept>
#include <string>

namespace ssa {
namespace {

/// nccl.h of NCCL 2, whose functions and numbers have been the same since 2.10.
struct Library {
  int (*get_unique_id)(Nccl::Id*);
  int (*comm_init_rank)(void** communicator, int ranks, Nccl::Id id, int rank);
  int (*comm_abort)(void* communicator);
  const char* (*get_error_string)(int result);
  int (*all_reduce)(const void* from, void* to, std::size_t count, int type, int operation,
                    void* communicator, void* stream);
  int (*broadcast)(const void* from, void* to, std::size_t count, int type, int root,
                   void* communicator, void* stream);
};

template <class Function>
void find(Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  if (function != nullptr) return;
  throw std::runtime_error(
      fmt::format("several processes on CUDA devices need NCCL, but torch has loaded none ({} is "
                  "not there)",
                  name));
}

const Library& library() {
  static const Library loaded = [] {
    Library all{};
    find(all.get_unique_id, "ncclGetUniqueId");
    find(all.comm_init_rank, "ncclCommInitRank");
    find(all.comm_abort, "ncclCommAbort");
    find(all.get_error_string, "ncclGetErrorString");
    find(all.all_reduce, "ncclAllReduce");
    find(all.broadcast, "ncclBroadcast");
    return all;
  }();
  return loaded;
}

void check(int result, const char* what) {
  if (result == 0) return;
  throw std::runtime_error(
      fmt::format("NCCL: {} failed: {}", what, library().get_error_string(result)));
}

/// ncclDataType_t
int type_of(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kInt64:
      return 4;
    case torch::kFloat16:
      return 6;
    case torch::kFloat32:
      return 7;
    case torch::kFloat64:
      return 8;
    case torch::kBFloat16:
      return 9;
    default:
      throw std::runtime_error(
          fmt::format("NCCL: tensors of {} are not sent", c10::toString(tensor.scalar_type())));
  }
}

void* stream_of(torch::Device device) {
  if (!device.is_cuda()) return nullptr;
  return c10::impl::getDeviceGuardImpl(device.type())->getStream(device).native_handle();
}

}  // namespace

Nccl::Id Nccl::make_id() {
  Id id{};
  check(library().get_unique_id(&id), "ncclGetUniqueId");
  return id;
}

Nccl::Nccl(const Id& id, int rank, int size, torch::Device device) : device_(device) {
  const c10::DeviceGuard guard(device);
  check(library().comm_init_rank(&communicator_, size, id, rank), "ncclCommInitRank");
}

// Not ncclCommDestroy, which waits for processes that may be gone.
Nccl::~Nccl() { library().comm_abort(communicator_); }

void Nccl::sum(const torch::Tensor& tensor) const {
  constexpr int kSum = 0;  // ncclRedOp_t
  const c10::DeviceGuard guard(device_);
  check(library().all_reduce(tensor.const_data_ptr(), tensor.data_ptr(),
                             static_cast<std::size_t>(tensor.numel()), type_of(tensor), kSum,
                             communicator_, stream_of(device_)),
        "ncclAllReduce");
}

void Nccl::broadcast(const torch::Tensor& tensor) const {
  const c10::DeviceGuard guard(device_);
  check(library().broadcast(tensor.const_data_ptr(), tensor.data_ptr(),
                            static_cast<std::size_t>(tensor.numel()), type_of(tensor), 0,
                            communicator_, stream_of(device_)),
        "ncclBroadcast");
}

}  // namespace ssa
