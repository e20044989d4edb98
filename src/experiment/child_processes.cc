#include "experiment/child_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "files/durable_files.h"

namespace ssa {
namespace {

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// What the child does between fork and exec: system calls only.
[[noreturn]] void become(char* const* arguments, char* const* environment, int log, int errors,
                         pid_t parent, const sigset_t& mask) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(EXIT_FAILURE);  // it died before the line above
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execve(arguments[0], arguments, environment);
  constexpr std::string_view kMessage = "the program could not be started\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(127);
}

/// The environment with OMP_NUM_THREADS set to `threads`.
std::vector<std::string> child_environment(std::int64_t threads) {
  std::vector<std::string> out = {fmt::format("OMP_NUM_THREADS={}", threads)};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "OMP_NUM_THREADS=", 16) != 0) out.emplace_back(*entry);
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& text : strings) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

ChildProcesses::ChildProcesses() {
  sigemptyset(&awaited_);
  sigaddset(&awaited_, SIGCHLD);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(signal)) sigaddset(&awaited_, signal);
  }
  sigprocmask(SIG_BLOCK, &awaited_, &mask_before_);
}

ChildProcesses::~ChildProcesses() { sigprocmask(SIG_SETMASK, &mask_before_, nullptr); }

pid_t ChildProcesses::start(const std::vector<std::string>& arguments,
                            const std::filesystem::path& log, std::int64_t threads) {
  std::vector<std::string> argument_strings = arguments;
  std::vector<std::string> environment_strings = child_environment(threads);
  const std::vector<char*> argv = pointers(argument_strings);
  const std::vector<char*> envp = pointers(environment_strings);
  const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (output < 0) {
    throw std::runtime_error(
        fmt::format("{}: cannot be opened: {}", log.string(), std::strerror(errno)));
  }
  FileDescriptor errors(memfd_create("standard error", MFD_CLOEXEC));
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    become(argv.data(), envp.data(), output, errors ? errors.number() : output, parent,
           mask_before_);
  }
  const int error = errno;
  close(output);
  if (child < 0) {
    throw std::runtime_error(
        fmt::format("{}: cannot be started: {}", arguments[0], std::strerror(error)));
  }
  setpgid(child, child);  // here too, so that it holds before a signal is passed on
  running_.emplace(child, Child{log, std::move(errors)});
  return child;
}

/// Appends what the child said on standard error to its log; returns the last line of it.
std::string ChildProcesses::end_log(const Child& child) {
  const off_t size = child.errors ? lseek(child.errors.number(), 0, SEEK_END) : 0;
  std::string text(static_cast<std::size_t>(std::max<off_t>(size, 0)), '\0');
  if (text.empty() || lseek(child.errors.number(), 0, SEEK_SET) != 0) return "";
  text.resize(read_some(child.errors, text.data(), text.size(), child.log));
  try {
    FileWriter log(child.log, FileWriter::Start::append);
    log.write(text);
    log.flush();
  } catch (const std::exception&) {  // a full disk: the line below says it
  }
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);  // npos + 1 = 0
}

ChildProcesses::Event ChildProcesses::wait() {
  while (true) {
    for (const auto& [child, facts] : running_) {
      int status = 0;
      if (waitpid(child, &status, WNOHANG) != child) continue;
      const auto ended = running_.extract(child);
      return {.pid = ended.key(), .status = status, .last_error = end_log(ended.mapped())};
    }
    // Several children may end for one SIGCHLD: hence the loop over all of them above.
    const int signal = sigwaitinfo(&awaited_, nullptr);
    if (signal < 0 || signal == SIGCHLD) continue;
    for (const auto& [child, facts] : running_) kill(child, signal);
    return {.signal = signal};
  }
}

std::string describe_failure(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace ssa
