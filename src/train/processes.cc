#include "train/processes.h"

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace ssa {
namespace {

using Store = c10::intrusive_ptr<c10d::Store>;
using std::chrono::seconds;

constexpr std::size_t kBucketBytes = std::size_t{25} << 20;
constexpr seconds kJoinTimeout{60};
constexpr seconds kBeat{1};
/// Beats without a sign after which a process counts as gone, when an operation has failed (a
/// connection is closed: somebody is gone for sure) and when nothing else is wrong.
constexpr int kMissedAfterFailure = 3;
constexpr int kMissed = 20;
/// Operations wait longer than any checkpoint takes to be written: the beats tell who is gone.
constexpr std::chrono::hours kOperationTimeout{24};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') {
    throw std::runtime_error(
        fmt::format("WORLD_SIZE is set, but not {}: torchrun sets RANK, WORLD_SIZE, MASTER_ADDR "
                    "and MASTER_PORT; unset WORLD_SIZE to train in one process",
                    name));
  }
  return value;
}

int number(const char* name, int least, int most) {
  const std::string text = variable(name);
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < least || value > most) {
    throw std::runtime_error(
        fmt::format("{} = \"{}\" is not a whole number from {} to {}", name, text, least, most));
  }
  return value;
}

bool is_set(const char* name, const char* value) {
  const char* found = std::getenv(name);
  return found != nullptr && std::string_view(found) == value;
}

/// torchrun keeps a store for its processes; without it the first process does.
bool torchrun_keeps_store() { return is_set("TORCHELASTIC_USE_AGENT_STORE", "True"); }

/// Keys of an earlier attempt of torchrun's are not those of this one.
Store connect_store(int rank, int size) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(number("MASTER_PORT", 1, 65535));
  options.isServer = rank == 0 && !torchrun_keeps_store();
  options.numWorkers = size;
  options.waitWorkers = false;
  options.timeout = kJoinTimeout;
  const char* attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return c10::make_intrusive<c10d::PrefixStore>(
      fmt::format("ssa/{}", attempt == nullptr ? "0" : attempt),
      c10::make_intrusive<c10d::TCPStore>(variable("MASTER_ADDR"), options));
}

std::string name_ranks(const std::vector<int>& ranks) {
  return ranks.size() == 1 ? fmt::format("rank {} is gone", ranks.front())
                           : fmt::format("ranks {} are gone", fmt::join(ranks, ", "));
}

/// Once a second every process counts up a number in the store and looks at the others' numbers.
/// Time is counted in a process's own beats: if all were suspended, none is gone.
class Heartbeat {
 public:
  Heartbeat(Store store, int rank, int size)
      : store_(std::move(store)), rank_(rank), others_(size), thread_([this] { beat(); }) {}
  ~Heartbeat() {
    {
      const std::scoped_lock lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// After an operation failed: waits until it is seen who is gone; "" if nobody is.
  std::string who_is_gone() {
    std::unique_lock lock(mutex_);
    const auto seen = [this] { return !gone(kMissedAfterFailure).empty(); };
    changed_.wait_for(lock, kBeat * (kMissedAfterFailure + 3), seen);
    const std::string found = gone(kMissedAfterFailure);
    // The store goes with the process that keeps it: the others are to see in it what this one saw.
    if (rank_ == 0 && !torchrun_keeps_store()) {
      changed_.wait_for(lock, kBeat * kMissedAfterFailure, [this] { return stopped_; });
    }
    return found;
  }

 private:
  struct Other {
    std::int64_t beats = 0;
    int missed = 0;
  };

  void beat() {
    while (true) {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, kBeat, [this] { return stopped_; })) return;
      lock.unlock();
      const std::optional<std::vector<std::int64_t>> beats = exchange();
      lock.lock();
      store_missed_ = beats ? 0 : store_missed_ + 1;
      for (std::size_t i = 0; beats && i < others_.size(); ++i) {
        const bool moved = (*beats)[i] != others_[i].beats;
        others_[i] = {(*beats)[i], moved ? 0 : others_[i].missed + 1};
      }
      const std::string lost = stopped_ ? "" : gone(kMissed);
      lock.unlock();
      changed_.notify_all();
      if (lost.empty()) continue;
      // The thread that trains may wait for it in the middle of an operation: there is no way back.
      fmt::print(stderr, "ssa: rank {}: {}: no sign of it for {} s; checkpoints are whole\n", rank_,
                 lost, kMissed);
      std::_Exit(EXIT_FAILURE);
    }
  }

  /// This one's beat, then everybody's; none if the store does not answer.
  std::optional<std::vector<std::int64_t>> exchange() {
    try {
      store_->add(key(rank_), 1);
      std::vector<std::int64_t> beats;
      for (std::size_t i = 0; i < others_.size(); ++i) beats.push_back(store_->add(key(i), 0));
      return beats;
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  static std::string key(std::size_t rank) { return fmt::format("beats/{}", rank); }

  std::string gone(int missed) const {
    std::vector<int> ranks;
    for (std::size_t i = 0; i < others_.size(); ++i) {
      if (others_[i].missed >= missed) ranks.push_back(static_cast<int>(i));
    }
    if (!ranks.empty()) return name_ranks(ranks);
    if (store_missed_ < missed) return "";
    return torchrun_keeps_store() ? "torchrun is gone" : name_ranks({0});
  }

  Store store_;
  int rank_;
  std::vector<Other> others_;
  int store_missed_ = 0;
  bool stopped_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace

struct Processes::Group {
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
  Heartbeat heartbeat;

  /// Waits for operations that have begun.
  void finish(const std::vector<c10::intrusive_ptr<c10d::Work>>& begun) {
    try {
      for (const auto& work : begun) work->wait();
    } catch (const std::exception& error) {
      const std::string gone = heartbeat.who_is_gone();
      throw std::runtime_error(
          gone.empty() ? fmt::format("the processes could not reach each other: {}", error.what())
                       : fmt::format("{}: this process stops too; checkpoints are whole", gone));
    }
  }
};

Processes::Processes() {
  if (std::getenv("WORLD_SIZE") == nullptr) return;
  size_ = number("WORLD_SIZE", 1, 1 << 16);
  if (size_ == 1) return;
  rank_ = number("RANK", 0, size_ - 1);
  // Who is gone is said in one line here; c10d would add a stack for every call that its store
  // missed.
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*replace=*/0);
  c10::initLogging();
  try {
    const Store store = connect_store(rank_, size_);
    const auto options = c10d::ProcessGroupGloo::Options::create(kJoinTimeout);
    const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
    options->devices = {interface == nullptr
                            ? c10d::ProcessGroupGloo::createDefaultDevice()
                            : c10d::ProcessGroupGloo::createDeviceForInterface(interface)};
    auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank_, size_, options);
    gloo->setTimeout(kOperationTimeout);
    // A connection of its own: the store serves one call at a time on each.
    group_.reset(new Group{std::move(gloo), {store->clone(), rank_, size_}});
  } catch (const c10::Error& error) {
    throw std::runtime_error(fmt::format("rank {} could not join the {} processes at {}:{}: {}",
                                         rank_, size_, variable("MASTER_ADDR"),
                                         variable("MASTER_PORT"), error.what_without_backtrace()));
  }
}

Processes::~Processes() = default;

void Processes::sum(const std::vector<torch::Tensor>& tensors) {
  if (!group_) return;
  const torch::NoGradGuard no_gradient;
  std::vector<std::vector<torch::Tensor>> buckets;
  std::size_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) {
    const bool fits = !buckets.empty() && bytes + tensor.nbytes() <= kBucketBytes &&
                      buckets.back().front().scalar_type() == tensor.scalar_type();
    if (!fits) {
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().push_back(tensor);
    bytes += tensor.nbytes();
  }
  std::vector<torch::Tensor> flat;
  std::vector<c10::intrusive_ptr<c10d::Work>> begun;
  for (const auto& bucket : buckets) {
    std::vector<torch::Tensor> parts;
    for (const torch::Tensor& tensor : bucket) parts.push_back(tensor.reshape(-1));
    flat.push_back(parts.size() == 1 ? parts.front() : torch::cat(parts));
    std::vector<torch::Tensor> one = {flat.back()};
    begun.push_back(group_->gloo->allreduce(one));
  }
  group_->finish(begun);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i].size() == 1) continue;  // was summed where it lies
    std::int64_t first = 0;
    for (const torch::Tensor& tensor : buckets[i]) {
      tensor.copy_(flat[i].narrow(0, first, tensor.numel()).view_as(tensor));
      first += tensor.numel();
    }
  }
}

void Processes::broadcast(const std::vector<torch::Tensor>& tensors) {
  if (!group_) return;
  std::vector<c10::intrusive_ptr<c10d::Work>> begun;
  for (const torch::Tensor& tensor : tensors) {
    std::vector<torch::Tensor> one = {tensor};
    begun.push_back(group_->gloo->broadcast(one));
  }
  group_->finish(begun);
}

}  // namespace ssa
