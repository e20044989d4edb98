#include "train/signals.h"

#include <csignal>
#include <cstddef>
#include <ctime>

namespace ssa {
namespace {

constexpr double kOneCause = 0.25;  // seconds

volatile std::sig_atomic_t received_signal = 0;
timespec received_at;
std::array<struct sigaction, kStopSignals.size()> previous;

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
  // A pipe without a reader is met again with every line.
  if (passed < kOneCause || signal == SIGPIPE) return;
  struct sigaction fatal = {};
  fatal.sa_handler = SIG_DFL;
  for (const int one : kStopSignals) sigaction(one, &fatal, nullptr);
  raise(signal);  // once this handler is left
}

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // a read or write that the signal meets goes on
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    sigaction(kStopSignals[i], nullptr, &previous[i]);
    if (previous[i].sa_handler != SIG_IGN) sigaction(kStopSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    sigaction(kStopSignals[i], &previous[i], nullptr);
  }
}

int StopSignals::received() const { return received_signal; }

}  // namespace ssa
