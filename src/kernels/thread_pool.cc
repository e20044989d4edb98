#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "ssa/parallel.h"

namespace ssa {
namespace {

using Task = std::function<void(std::int64_t)>;

/// Workers sleep until a job comes; the caller works along. One job at a time: a second caller
/// waits.
class ThreadPool {
 public:
  explicit ThreadPool(int threads) {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
  }

  ~ThreadPool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void run(std::int64_t count, const Task& task) {
    // A task that itself runs a job does it on its own thread: waiting for the pool would deadlock.
    if (workers_.empty() || count <= 1 || inside_) {
      for (std::int64_t i = 0; i < count; ++i) task(i);
      return;
    }
    const std::lock_guard one_job(job_mutex_);
    {
      const std::lock_guard lock(mutex_);
      task_ = &task;
      count_ = count;
      next_ = 0;
      error_ = nullptr;
      busy_ = static_cast<int>(workers_.size());
      ++job_;
    }
    wake_.notify_all();
    take_tasks();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void work() {
    std::uint64_t seen = 0;
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return stop_ || job_ != seen; });
        if (stop_) return;
        seen = job_;
      }
      take_tasks();
      {
        const std::lock_guard lock(mutex_);
        --busy_;
      }
      done_.notify_one();
    }
  }

  void take_tasks() {
    inside_ = true;
    for (std::int64_t i = next_++; i < count_; i = next_++) {
      try {
        (*task_)(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
        next_ = count_;
      }
    }
    inside_ = false;
  }

  static thread_local bool inside_;
  std::vector<std::thread> workers_;
  std::mutex job_mutex_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const Task* task_ = nullptr;
  std::int64_t count_ = 0;
  std::atomic<std::int64_t> next_{0};
  std::exception_ptr error_;
  int busy_ = 0;
  std::uint64_t job_ = 0;
  bool stop_ = false;
};

thread_local bool ThreadPool::inside_ = false;

}  // namespace

void run_in_order(std::int64_t count, const Task& task) {
  for (std::int64_t i = 0; i < count; ++i) task(i);
}

Parallel serial() { return {}; }

Parallel thread_pool(int threads) {
  if (threads <= 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  auto pool = std::make_shared<ThreadPool>(threads);
  return {threads, [pool](std::int64_t count, const Task& task) { pool->run(count, task); }};
}

}  // namespace ssa
