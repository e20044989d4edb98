#include "files/mapped_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "files/file_descriptor.h"

namespace ssa {
namespace {

/// A mapping as the handler of SIGBUS finds it: without locks, and without memory of its own.
struct Place {
  std::atomic<const std::byte*> begin = nullptr;  ///< nullptr: free
  std::atomic<std::size_t> size = 0;
  std::array<char, 512> message{};
};
std::array<Place, 1024> places;
std::mutex places_mutex;

void on_bus_error(int signal, siginfo_t* facts, void* /*context*/) {
  const auto* address = static_cast<const std::byte*>(facts->si_addr);
  for (const Place& place : places) {
    const std::byte* begin = place.begin;
    if (begin == nullptr || address < begin || address >= begin + place.size) continue;
    [[maybe_unused]] const ssize_t written =
        ::write(STDERR_FILENO, place.message.data(), std::strlen(place.message.data()));
    ::_exit(EXIT_FAILURE);
  }
  ::signal(signal, SIG_DFL);  // somebody else's: what would have been
}

void remember(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  const std::scoped_lock lock(places_mutex);
  static const bool handled = [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  if (!handled) return;
  for (Place& place : places) {
    if (place.begin != nullptr) continue;
    const std::string message =
        fmt::format("ssa: {}: became shorter while it was read\n", file.string());
    message.copy(place.message.data(), place.message.size() - 1);
    place.message[std::min(message.size(), place.message.size() - 1)] = '\0';
    place.size = bytes.size();
    place.begin = bytes.data();
    return;
  }
}

void forget(std::span<const std::byte> bytes) {
  const std::scoped_lock lock(places_mutex);
  for (Place& place : places) {
    if (place.begin == bytes.data()) place.begin = nullptr;
  }
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& file) {
  const FileDescriptor opened = open_to_read(file);
  struct stat facts {};
  if (::fstat(opened.number(), &facts) != 0) throw_system_error(file, "read");
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (size == 0) return;  // an empty file cannot be mapped, and need not be
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, opened.number(), 0);
  if (start == MAP_FAILED) throw_system_error(file, "read");
  bytes_ = {static_cast<const std::byte*>(start), size};
  remember(file, bytes_);
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  forget(bytes_);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace ssa
