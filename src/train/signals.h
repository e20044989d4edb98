// The first of these signals asks training to stop after its step; one that comes later (0.25 s and
// more) kills.
#pragma once

#include <array>
#include <csignal>

namespace ssa {

/// Ctrl-C, kill and job systems, a terminal that is closed, a reader of standard output that is
/// gone.
inline constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

/// While one of these lives, the signals are noted instead of killing the process; those that were
/// ignored (nohup) stay ignored. At most one at a time; the previous handlers come back at its end.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The first one that has come; 0 while there is none.
  int received() const;
};

}  // namespace ssa
