// Child processes and the signals that concern them, one event at a time.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "files/file_descriptor.h"

namespace ssa {

/// While it lives, interrupts (SIGINT, SIGTERM, SIGHUP unless ignored) are not acted upon but
/// passed on to the children and reported by wait(). One at a time, before any thread is started.
class ChildProcesses {
 public:
  ChildProcesses();
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  /// Starts arguments[0] with OMP_NUM_THREADS = threads; its output is appended to `log`, what
  /// it says on standard error when it ends. The child has a process group of its own, so that
  /// Ctrl-C reaches it once, through us, and it is told to stop (SIGTERM) should this process die.
  /// Throws std::runtime_error if there is no process.
  pid_t start(const std::vector<std::string>& arguments, const std::filesystem::path& log,
              std::int64_t threads);

  struct Event {
    pid_t pid = 0;  ///< the child that ended, with its wait status
    int status = 0;
    std::string last_error = {};  ///< its last line on standard error, also where the disk is full
    int signal = 0;               ///< or the signal that was passed on to all children
  };
  /// Waits for the next event.
  Event wait();

 private:
  struct Child {
    std::filesystem::path log;
    FileDescriptor errors;  ///< in memory
  };
  static std::string end_log(const Child& child);

  std::map<pid_t, Child> running_;
  sigset_t awaited_;
  sigset_t mask_before_;
};

/// "exit code 1" or "signal 11 (Segmentation fault)"; "" for success.
std::string describe_failure(int status);

}  // namespace ssa
