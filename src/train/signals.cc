#include "train/signals.h"

#include <csignal>
#include <ctime>

namespace ssa {
namespace {

constexpr double kOneCause = 0.25;  // seconds

volatile std::sig_atomic_t received_signal = 0;
timespec received_at;
struct sigaction previous_interrupt, previous_terminate;

/// What ends a process may signal more than once: PR_SET_PDEATHSIG does as each thread of a killed
/// parent ends. A signal that comes later meets the default action, which kills.
void note(int signal) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (received_signal == 0) {
    received_at = now;
    received_signal = signal;
    return;
  }
  const double passed = static_cast<double>(now.tv_sec - received_at.tv_sec) +
                        1e-9 * static_cast<double>(now.tv_nsec - received_at.tv_nsec);
  if (passed < kOneCause) return;
  struct sigaction fatal = {};
  fatal.sa_handler = SIG_DFL;
  sigaction(SIGINT, &fatal, nullptr);
  sigaction(SIGTERM, &fatal, nullptr);
  raise(signal);  // once this handler is left
}

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // a read or write that the signal meets goes on
  sigaction(SIGINT, &action, &previous_interrupt);
  sigaction(SIGTERM, &action, &previous_terminate);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &previous_interrupt, nullptr);
  sigaction(SIGTERM, &previous_terminate, nullptr);
}

int StopSignals::received() const { return received_signal; }

}  // namespace ssa
