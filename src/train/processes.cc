#include "train/processes.h"

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "files/terminal.h"
#include "train/nccl.h"

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
constexpr int kMissed = 15;
/// Operations wait longer than any checkpoint takes to be written: the beats tell who is gone.
constexpr std::chrono::hours kOperationTimeout{24};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') {
    throw std::runtime_error(
        fmt::format("WORLD_SIZE is set, but not {}: torchrun sets RANK, LOCAL_RANK, WORLD_SIZE, "
                    "MASTER_ADDR and MASTER_PORT; unset WORLD_SIZE to train in one process",
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

/// torchrun keeps a store for its processes; without it the first process does.
bool torchrun_keeps_store() {
  const char* said = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  return said != nullptr && std::string_view(said) == "True";
}

/// Keys of an earlier attempt of torchrun's are not those of this one.
Store connect_store(const std::string& address, int port, int rank, int size) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.isServer = rank == 0 && !torchrun_keeps_store();
  options.numWorkers = size;
  options.waitWorkers = false;
  options.timeout = kJoinTimeout;
  const char* attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return c10::make_intrusive<c10d::PrefixStore>(
      fmt::format("ssa/{}", attempt == nullptr ? "0" : attempt),
      c10::make_intrusive<c10d::TCPStore>(address, options));
}

[[noreturn]] void fail_to_join(int rank, int size, const std::string& what) {
  throw std::runtime_error(fmt::format(
      "rank {} could not join the {} processes at {}:{}: {} (GLOO_SOCKET_IFNAME names the network "
      "interface where the host name does not lead to it)",
      rank, size, variable("MASTER_ADDR"), variable("MASTER_PORT"), what));
}

std::string name_ranks(const std::vector<int>& ranks) {
  return ranks.size() == 1 ? fmt::format("rank {} is gone", ranks.front())
                           : fmt::format("ranks {} are gone", fmt::join(ranks, ", "));
}

/// What the thread that talks to the store has heard; shared, for that thread may outlive the rest:
/// a store that is silent is waited for without end.
struct Board {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::int64_t> beats;  // of every rank, as the store last said
  std::int64_t answers = 0;
  bool broken = false;  // the store is gone
  bool closed = false;

  bool wait_a_beat(std::unique_lock<std::mutex>& lock) {
    return changed.wait_for(lock, kBeat, [this] { return closed; });
  }
};

std::string beats_of(std::size_t rank) { return fmt::format("beats/{}", rank); }

void exchange_beats(const std::shared_ptr<Board>& board, const Store& store, int rank) {
  std::unique_lock lock(board->mutex);
  std::vector<std::int64_t> beats(board->beats.size());
  while (!board->wait_a_beat(lock)) {
    lock.unlock();
    try {
      store->add(beats_of(rank), 1);
      for (std::size_t i = 0; i < beats.size(); ++i) beats[i] = store->add(beats_of(i), 0);
    } catch (const std::exception&) {
      lock.lock();
      board->broken = true;
      return;
    }
    lock.lock();
    board->beats = beats;
    ++board->answers;
  }
}

/// Once a second every process counts up a number in the store and looks at the others' numbers.
/// Time is counted in a process's own beats: if all were suspended, none is gone.
class Heartbeat {
 public:
  Heartbeat(Store store, int rank, int size)
      : board_(std::make_shared<Board>()), rank_(rank), others_(size) {
    board_->beats.resize(size);
    std::thread(exchange_beats, board_, std::move(store), rank).detach();
    thread_ = std::thread([this] { count(); });
  }
  ~Heartbeat() {
    {
      const std::scoped_lock lock(board_->mutex);
      board_->closed = true;
    }
    board_->changed.notify_all();
    thread_.join();
  }
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  void before_end(std::function<void(const std::string&)> tell) {
    const std::scoped_lock lock(board_->mutex);
    before_end_ = std::move(tell);
  }

  /// After an operation failed: waits until it is seen who is gone; "" if nobody is.
  std::string who_is_gone() {
    std::unique_lock lock(board_->mutex);
    const auto seen = [this] { return !gone(kMissedAfterFailure).empty(); };
    board_->changed.wait_for(lock, kBeat * (kMissedAfterFailure + 3), seen);
    const std::string found = gone(kMissedAfterFailure);
    // The store goes with the process that keeps it: the others are to see in it what this one saw.
    if (rank_ == 0 && !torchrun_keeps_store()) {
      board_->changed.wait_for(lock, kBeat * kMissedAfterFailure,
                               [this] { return board_->closed; });
    }
    return found;
  }

 private:
  struct Other {
    std::int64_t beats = 0;
    int missed = 0;
  };

  void count() {
    std::unique_lock lock(board_->mutex);
    while (!board_->wait_a_beat(lock)) {
      const bool answered = board_->answers != answers_;
      answers_ = board_->answers;
      unanswered_ = answered ? 0 : unanswered_ + 1;
      for (std::size_t i = 0; answered && i < others_.size(); ++i) {
        const bool moved = board_->beats[i] != others_[i].beats;
        others_[i] = {board_->beats[i], moved ? 0 : others_[i].missed + 1};
      }
      board_->changed.notify_all();
      // A torchrun that is suspended is silent too. Whoever keeps the store may have ended because
      // of another that it has seen to be gone.
      const int patience = board_->broken ? kMissedAfterFailure : kMissed;
      const bool suspended = torchrun_keeps_store() && unanswered_ > 0 && !board_->broken;
      const std::string lost = suspended ? "" : gone(patience);
      if (lost.empty()) continue;
      // The thread that trains may wait for it in the middle of an operation: there is no way back.
      const std::string reason =
          fmt::format("{}: no sign of it for {} s; this process stops too, checkpoints are whole",
                      lost, patience);
      if (before_end_) before_end_(reason);
      warn(reason);
      std::_Exit(EXIT_FAILURE);
    }
  }

  std::string gone(int missed) const {
    std::vector<int> ranks;
    for (std::size_t i = 0; i < others_.size(); ++i) {
      if (others_[i].missed >= missed) ranks.push_back(static_cast<int>(i));
    }
    if (!ranks.empty()) return name_ranks(ranks);
    if (unanswered_ < missed) return "";
    return torchrun_keeps_store() ? "torchrun is gone" : name_ranks({0});
  }

  std::shared_ptr<Board> board_;
  int rank_;
  std::vector<Other> others_;
  std::function<void(const std::string&)> before_end_;
  std::int64_t answers_ = 0;
  int unanswered_ = 0;  // beats since the store's last answer
  std::thread thread_;
};

}  // namespace

struct Processes::Group {
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
  Heartbeat heartbeat;
  std::unique_ptr<Nccl> nccl = nullptr;  // of CUDA devices

  /// Waits for operations that have begun.
  void finish(const std::vector<c10::intrusive_ptr<c10d::Work>>& begun) {
    try {
      for (const auto& work : begun) work->wait();
    } catch (const c10::Error& error) {
      fail(error.what_without_backtrace());
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }

  [[noreturn]] void fail(const std::string& what) {
    const std::string gone = heartbeat.who_is_gone();
    throw std::runtime_error(
        gone.empty() ? fmt::format("the processes could not reach each other: {}", what)
                     : fmt::format("{}: this process stops too, checkpoints are whole", gone));
  }
};

Processes::Processes() {
  const char* size = std::getenv("WORLD_SIZE");
  if (size == nullptr || *size == '\0') return;
  size_ = number("WORLD_SIZE", 1, 1 << 16);
  if (size_ == 1) return;
  rank_ = number("RANK", 0, size_ - 1);
  // Who is gone is said in one line here; c10d would add a stack for every call that its store
  // missed.
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*replace=*/0);
  c10::initLogging();
  const int port = number("MASTER_PORT", 1, 65535);
  const std::string address = variable("MASTER_ADDR");
  try {
    const Store store = connect_store(address, port, rank_, size_);
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
    fail_to_join(rank_, size_, error.what_without_backtrace());
  } catch (const std::exception& error) {
    fail_to_join(rank_, size_, error.what());
  }
}

Processes::~Processes() = default;

void Processes::use_device(torch::Device device) {
  if (!group_ || !device.is_cuda()) return;
  Nccl::Id id{};
  if (is_first()) id = Nccl::make_id();
  broadcast({torch::from_blob(id.data(), {static_cast<std::int64_t>(id.size())}, torch::kUInt8)});
  group_->nccl = std::make_unique<Nccl>(id, rank_, size_, device);
}

int Processes::local_rank() const { return size_ == 1 ? 0 : number("LOCAL_RANK", 0, size_ - 1); }

void Processes::sum(const std::vector<torch::Tensor>& tensors) {
  if (!group_) return;
  const torch::NoGradGuard no_gradient;
  std::vector<std::vector<torch::Tensor>> buckets;
  std::size_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) {
    const bool fits = !buckets.empty() && bytes + tensor.nbytes() <= kBucketBytes &&
                      buckets.back().front().scalar_type() == tensor.scalar_type() &&
                      buckets.back().front().device() == tensor.device();
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
    if (!flat.back().is_cpu()) {
      group_->nccl->sum(flat.back());
      continue;
    }
    std::vector<torch::Tensor> one = {flat.back()};
    begun.push_back(group_->gloo->allreduce(one));
  }
  group_->finish(begun);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    std::int64_t first = 0;
    for (const torch::Tensor& tensor : buckets[i]) {
      if (tensor.data_ptr() == flat[i].data_ptr()) continue;  // was summed where it lies
      tensor.copy_(flat[i].narrow(0, first, tensor.numel()).view_as(tensor));
      first += tensor.numel();
    }
  }
}

void Processes::broadcast(const std::vector<torch::Tensor>& tensors) {
  if (!group_) return;
  const torch::NoGradGuard no_gradient;
  std::vector<c10::intrusive_ptr<c10d::Work>> begun;
  for (const torch::Tensor& tensor : tensors) {
    if (!tensor.is_cpu()) {
      group_->nccl->broadcast(tensor);
      continue;
    }
    std::vector<torch::Tensor> one = {tensor};
    begun.push_back(group_->gloo->broadcast(one));
  }
  group_->finish(begun);
}

void Processes::require_same(std::uint64_t hash, const std::string& what) {
  const torch::Tensor first = torch::tensor(static_cast<std::int64_t>(hash));
  broadcast({first});
  const bool same = first.item<std::int64_t>() == static_cast<std::int64_t>(hash);
  const torch::Tensor others = torch::tensor(same ? 0.0F : 1.0F);
  sum({others});
  if (others.item<float>() == 0) return;
  throw std::runtime_error(fmt::format(
      "the processes were not started alike: {} of {} differ from rank 0 in {}{}",
      others.item<float>(), size_, what, same ? "" : fmt::format(", rank {} does", rank_)));
}

void Processes::meet() { sum({torch::zeros({1})}); }

void Processes::before_lost(std::function<void(const std::string&)> tell) {
  if (group_) group_->heartbeat.before_end(std::move(tell));
}

}  // namespace ssa
