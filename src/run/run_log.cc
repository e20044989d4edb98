#include "run/run_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>

#include "files/terminal.h"

namespace ssa {
namespace {

constexpr int kBarWidth = 30;
constexpr std::int64_t kRedrawMilliseconds = 100;

std::int64_t milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void write_line(FileWriter& file, const std::string& line) {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local{};
  ::localtime_r(&now, &local);
  file.write(fmt::format("{:%Y-%m-%d %H:%M:%S}  {}\n", local, printable_line(line)));
  file.flush();
}

FileWriter open_log(const std::filesystem::path& folder) {
  return {folder / "log.txt", FileWriter::Start::append};
}

}  // namespace

void append_to_log(const std::filesystem::path& folder, const std::string& line) {
  FileWriter file = open_log(folder);
  write_line(file, line);
}

RunLog::RunLog(const std::filesystem::path& folder, bool quiet)
    : file_(open_log(folder)), quiet_(quiet), bar_(!quiet && can_redraw(STDOUT_FILENO)) {}

RunLog::~RunLog() { clear_bar(); }

void RunLog::show(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void RunLog::clear_bar() {
  if (bar_drawn_) show(kClearLine);
  bar_drawn_ = false;
}

void RunLog::note(const std::string& line) { write_line(file_, line); }

void RunLog::say(const std::string& line) {
  note(line);
  if (quiet_) return;
  clear_bar();
  show(printable_line(line) + "\n");
}

void RunLog::say_figures(const std::string& line) {
  if (bar_) {
    note(line);
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
  show(fmt::format("{}[{:<{}}] {}/{}  {}", kClearLine, std::string(filled, '#'), kBarWidth, step,
                   steps, figures));
  bar_drawn_ = true;
}

}  // namespace ssa
