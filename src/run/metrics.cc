#include "run/metrics.h"

#include <fmt/format.h>

#include <stdexcept>

#include "files/durable_files.h"

namespace ssa {
namespace {

/// The lines of steps up to `step`.
std::string lines_up_to(const std::filesystem::path& file, std::int64_t step) {
  std::ifstream in(file, std::ios::binary);
  std::string kept, line;
  for (std::int64_t number = 1; std::getline(in, line); ++number) {
    const bool torn = in.eof();
    if (torn) break;
    const Json value = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!value.is_object() || !value.contains("step") || !value["step"].is_number_integer()) {
      throw std::runtime_error(fmt::format("{}:{}: not a line of metrics (an object with \"step\")",
                                           file.string(), number));
    }
    if (value["step"].get<std::int64_t>() <= step) kept += line + "\n";
  }
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& folder, std::int64_t step)
    : file_(folder / "metrics.jsonl") {
  write_file(file_, lines_up_to(file_, step));
  out_.open(file_, std::ios::binary | std::ios::app);
}

void MetricsFile::write(const Json& line) {
  out_ << line.dump() << "\n" << std::flush;
  if (!out_) throw std::runtime_error(fmt::format("{}: cannot be written", file_.string()));
}

}  // namespace ssa
