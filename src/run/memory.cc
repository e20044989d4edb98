#include "run/memory.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

namespace ssa {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// The number behind `key` in a file of lines "key  number kB".
std::optional<std::uint64_t> kilobytes(const char* file, const std::string& key) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  for (std::string word; in >> word;) {
    if (word == key && in >> value) return value * 1024;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_in(const char* file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  return in >> value ? std::optional(value) : std::nullopt;  // "max": none
}

std::uint64_t difference(std::uint64_t most, std::uint64_t used) {
  return most - std::min(most, used);
}

}  // namespace

std::uint64_t available_memory() {
  std::uint64_t available = kilobytes("/proc/meminfo", "MemAvailable:").value_or(kUnlimited);
  const auto most = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (most && used) available = std::min(available, difference(*most, *used));
  rlimit limit{};
  const auto mapped = kilobytes("/proc/self/status", "VmSize:");
  if (mapped && ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    available = std::min<std::uint64_t>(available, difference(limit.rlim_cur, *mapped));
  }
  return available;
}

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.1f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.0f} bytes", bytes);
}

std::string out_of_memory_text(double asked) {
  const std::string wanted = asked > 0 ? bytes_text(asked) : "more than there is";
  return fmt::format("out of memory: {} asked for at once, {} available", wanted,
                     bytes_text(static_cast<double>(available_memory())));
}

}  // namespace ssa
