#include "run/run_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <iomanip>
#include <stdexcept>

namespace ssa {
namespace {

constexpr int kBarWidth = 30;
constexpr std::int64_t kRedrawMilliseconds = 100;

std::int64_t milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

RunLog::RunLog(const std::filesystem::path& folder, bool quiet)
    : path_(folder / "log.txt"),
      file_(path_, std::ios::app),
      quiet_(quiet),
      bar_(!quiet && ::isatty(STDOUT_FILENO) == 1) {
  if (!file_) throw std::runtime_error(fmt::format("{}: cannot be written", path_.string()));
}

RunLog::~RunLog() { clear_bar(); }

void RunLog::clear_bar() {
  if (bar_drawn_) fmt::print("\r\x1b[K");
  bar_drawn_ = false;
  std::fflush(stdout);
}

void RunLog::write(const std::string& line) {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local{};
  ::localtime_r(&now, &local);
  file_ << std::put_time(&local, "%Y-%m-%d %H:%M:%S  ") << line << std::endl;
}

void RunLog::say(const std::string& line) {
  write(line);
  if (quiet_) return;
  clear_bar();
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void RunLog::say_figures(const std::string& line) {
  if (bar_) {
    write(line);
  } else {
    say(line);
  }
}

void RunLog::progress(std::int64_t step, std::int64_t steps, const std::string& figures) {
  if (!bar_) return;
  const std::int64_t now = milliseconds();
  if (step < steps && now - last_drawn_ < kRedrawMilliseconds) return;
  last_drawn_ = now;
  const auto filled = static_cast<std::size_t>(kBarWidth * step / steps);
  fmt::print("\r\x1b[K[{:<{}}] {}/{}  {}", std::string(filled, '#'), kBarWidth, step, steps,
             figures);
  std::fflush(stdout);
  bar_drawn_ = true;
}

}  // namespace ssa
