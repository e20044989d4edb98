#include "files/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
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
#include <string_view>
#include <thread>
#include <utility>

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

constexpr std::string_view kProgram = "ssa: ";
constexpr int kMostTelling = 30000;  // milliseconds

std::mutex teller_mutex;
std::function<void(const std::string&)> teller;
std::atomic<int> to_teller = -1;  ///< the pipe to the thread that calls it

/// The thread: what the handler, which may only call what is safe in one, cannot do itself.
void wait_to_tell(int pipe) {
  std::array<char, sizeof(Place::message)> bytes{};
  const ssize_t size = ::read(pipe, bytes.data(), bytes.size());
  if (size <= 0) return;
  const std::string_view message(bytes.data(), static_cast<std::size_t>(size));
  const std::scoped_lock lock(teller_mutex);
  if (teller) {
    teller(std::string(message.substr(kProgram.size(), message.find('\n') - kProgram.size())));
  }
  ::_exit(EXIT_FAILURE);
}

/// Starts it; signals stay matters of the other threads.
void start_teller() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(wait_to_tell, ends[0]).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  to_teller = ends[1];
}

void on_bus_error(int signal, siginfo_t* facts, void* /*context*/) {
  const auto* address = static_cast<const std::byte*>(facts->si_addr);
  for (const Place& place : places) {
    const std::byte* begin = place.begin;
    if (begin == nullptr || address < begin || address >= begin + place.size) continue;
    const std::size_t length = std::strlen(place.message.data());
    [[maybe_unused]] const ssize_t shown = ::write(STDERR_FILENO, place.message.data(), length);
    if (::write(to_teller, place.message.data(), length) > 0) ::poll(nullptr, 0, kMostTelling);
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
        fmt::format("{}{}: became shorter while it was read\n", kProgram, file.string());
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

void before_shrunk(std::function<void(const std::string&)> tell) {
  const std::scoped_lock lock(teller_mutex);
  teller = std::move(tell);
  if (teller && to_teller < 0) start_teller();
}

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
