#include "train/signals.h"

#include <csignal>

namespace ssa {
namespace {

volatile std::sig_atomic_t received_signal = 0;
struct sigaction previous_interrupt, previous_terminate;

/// From now on both signals meet the default action, which kills.
void note(int signal) {
  received_signal = signal;
  struct sigaction fatal = {};
  fatal.sa_handler = SIG_DFL;
  sigaction(SIGINT, &fatal, nullptr);
  sigaction(SIGTERM, &fatal, nullptr);
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
