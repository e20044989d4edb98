// metrics.jsonl (docs/formats.md): one JSON object a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "files/durable_files.h"

namespace ssa {

class MetricsFile {
 public:
  /// Opens folder/metrics.jsonl for appending after dropping the lines above `step` (those that a
  /// resumed run writes again) and a last line torn by a crash. Throws std::runtime_error if it
  /// cannot be written or an earlier line is not what a run writes.
  MetricsFile(const std::filesystem::path& folder, std::int64_t step);

  /// Whether there is a line of the validation after `step`.
  bool has_validation() const { return has_validation_; }

  /// Appends one line; it is in the file when this returns.
  void write(const Json& line);

 private:
  bool has_validation_ = false;
  std::optional<FileWriter> out_;
};

}  // namespace ssa
