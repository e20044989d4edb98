#include "train/signals.h"

#include <csignal>

namespace ssa {
namespace {

volatile std::sig_atomic_t received_signal = 0;
struct sigaction previous_interrupt, previous_terminate;

void note(int signal) { received_signal = signal; }

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  // One shot: the second signal of a kind meets the default action, which kills. A read that the
  // first one interrupts goes on.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, &previous_interrupt);
  sigaction(SIGTERM, &action, &previous_terminate);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &previous_interrupt, nullptr);
  sigaction(SIGTERM, &previous_terminate, nullptr);
}

int StopSignals::received() const { return received_signal; }

}  // namespace ssa
