// What a run says: on the terminal, and with times in log.txt.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "files/durable_files.h"

namespace ssa {

/// One line, with the time, in folder/log.txt: of what has no RunLog, beside a process that may
/// have one. Throws std::runtime_error if it cannot be written.
void append_to_log(const std::filesystem::path& folder, const std::string& line);

/// Where nobody reads standard output any more, training goes on: log.txt has what it said.
class RunLog {
 public:
  /// Appends to folder/log.txt; throws std::runtime_error if it cannot. `quiet` keeps standard
  /// output silent.
  RunLog(const std::filesystem::path& folder, bool quiet);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// One line on standard output and in log.txt.
  void say(const std::string& line);

  /// One line in log.txt alone.
  void note(const std::string& line);

  /// On a terminal, redraws the bar (at most ten times a second, or when all steps are done);
  /// nothing elsewhere, so that files and pipes hold plain lines only. `figures` follow the bar.
  void progress(std::int64_t step, std::int64_t steps, const std::string& figures);

  /// For lines that the bar already shows: standard output only where there is no bar.
  void say_figures(const std::string& line);

 private:
  void show(std::string_view text);
  void clear_bar();

  FileWriter file_;
  bool quiet_;
  bool bar_;
  bool bar_drawn_ = false;
  std::int64_t last_drawn_ = 0;  ///< milliseconds
};

}  // namespace ssa
