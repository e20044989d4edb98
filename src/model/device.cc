#include "model/device.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/version.h>

#include <filesystem>
#include <stdexcept>

#include "config/config.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

/// The program links what every torch has (libtorch_cpu). The kernels for CUDA lie beside it and
/// register themselves when they are loaded; that must come before anything asks torch about CUDA,
/// for it remembers the answer. Returns what stands in the way, or "".
std::string load_cuda_libraries() {
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&at::globalContext), &here) == 0) {
    return "the folder of torch's libraries cannot be found";
  }
  const fs::path library = fs::path(here.dli_fname).parent_path() / "libtorch_cuda.so";
  if (!fs::exists(library)) {
    return fmt::format("torch {} here is the one without CUDA ({} is missing)", TORCH_VERSION,
                       library.string());
  }
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) return dlerror();
  return at::hasCUDA() ? "" : "torch finds no CUDA device (is its driver installed?)";
}

}  // namespace

torch::Device find_device(const std::string& what, const std::string& name, int number) {
  if (!is_device_name(name)) {
    throw std::invalid_argument(fmt::format("{} = \"{}\": expected {}", what, name, kDeviceNames));
  }
  torch::Device device(name);
  if (device.is_cpu()) return device;
  static const std::string obstacle = load_cuda_libraries();
  if (!obstacle.empty()) {
    throw std::runtime_error(fmt::format("{} = \"{}\": {}; there is: cpu", what, name, obstacle));
  }
  if (!device.has_index()) device.set_index(static_cast<torch::DeviceIndex>(number));
  const int count = at::detail::getCUDAHooks().deviceCount();
  if (device.index() < count) return device;
  throw std::runtime_error(fmt::format("{} = \"{}\": there is no {}; there is: cpu, cuda:0{}", what,
                                       name, device.str(),
                                       count > 1 ? fmt::format(" to cuda:{}", count - 1) : ""));
}

torch::Tensor on_device(const torch::Tensor& tensor, torch::Device device) {
  if (!tensor.defined() || tensor.device() == device) return tensor;
  if (!tensor.is_cpu() || !device.is_cuda()) return tensor.to(device);
  return tensor.pin_memory().to(device, /*non_blocking=*/true);
}

}  // namespace ssa
