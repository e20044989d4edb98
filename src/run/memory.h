// How much memory there is, and what running out of it means.
#pragma once

#include <cstdint>
#include <string>

namespace ssa {

/// Bytes that this process could still take: what the machine has available, its control group and
/// its own limits (ulimit -v) leave. The largest number where the system says nothing.
std::uint64_t available_memory();

/// "3.1 GB"
std::string bytes_text(double bytes);

/// "out of memory: 12.3 GB were asked for, 3.1 GB are available; …": of an allocation that failed;
/// `asked` 0 where that is not known.
std::string out_of_memory_text(double asked);

}  // namespace ssa
