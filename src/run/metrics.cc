#include "run/metrics.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "files/lines.h"

namespace ssa {
namespace {

/// The lines of steps up to `step`.
std::string lines_up_to(const std::filesystem::path& file, std::int64_t step,
                        bool& has_validation) {
  std::string kept;
  if (!std::filesystem::exists(file)) return kept;
  for_each_text_line(file, [&](const TextLine& line) {
    if (!line.ended) return;  // torn
    const Json value = parse_json(line.text);
    if (!value.is_object() || !value.contains("step") || !is_int64(value["step"])) {
      throw std::invalid_argument("not a line of metrics (an object with \"step\")");
    }
    const auto of_line = value["step"].get<std::int64_t>();
    if (of_line > step) return;
    kept.append(line.text).push_back('\n');
    has_validation = of_line == step && (has_validation || value.contains("validation"));
  });
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& folder, std::int64_t step) {
  const std::filesystem::path file = folder / "metrics.jsonl";
  write_file(file, lines_up_to(file, step, has_validation_));
  out_.emplace(file, FileWriter::Start::append);
}

void MetricsFile::write(const Json& line) {
  out_->write(json_text(line) + "\n");
  out_->flush();
}

}  // namespace ssa
