// The first SIGINT or SIGTERM asks training to stop after its step; one that comes later (0.25 s
// and more) kills.
#pragma once

namespace ssa {

/// While one of these lives, SIGINT and SIGTERM are noted instead of killing the process. At most
/// one at a time; the previous handlers come back at its end.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// SIGINT, SIGTERM, or 0 while none has come.
  int received() const;
};

}  // namespace ssa
