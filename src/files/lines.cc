#include "files/lines.h"

#include <fmt/format.h>

#include <stdexcept>
#include <vector>

#include "files/byte_stream.h"
#include "files/file_descriptor.h"
#include "files/utf8.h"

namespace ssa {
namespace {

constexpr std::size_t kMostLine = std::size_t{1} << 30;  ///< it is held in memory

}  // namespace

void for_each_text_line(const std::filesystem::path& file,
                        const std::function<void(const TextLine& line)>& work) {
  const auto stream = open_bytes(file);
  const std::string name = file.empty() ? "standard input" : file.string();
  std::string whole;
  std::int64_t number = 0;
  const auto end_line = [&](bool ended) {
    TextLine line{.text = whole, .number = ++number, .ended = ended};
    if (number == 1 && line.text.starts_with(kByteOrderMark)) {
      line.byte_order_mark = true;
      line.text.remove_prefix(kByteOrderMark.size());
    }
    if (line.text.ends_with('\r')) {
      line.carriage_return = true;
      line.text.remove_suffix(1);
    }
    try {
      work(line);
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(fmt::format("{}:{}: {}", name, number, error.what()));
    }
    whole.clear();
  };
  std::vector<char> buffer(1 << 16);
  while (const std::size_t size = stream->read(buffer)) {
    std::string_view rest(buffer.data(), size);
    for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      whole.append(rest.substr(0, end));
      end_line(true);
      rest.remove_prefix(end + 1);
    }
    whole.append(rest);
    if (whole.size() > kMostLine) {
      throw std::runtime_error(
          fmt::format("{}:{}: a line of more than {} bytes", name, number + 1, kMostLine));
    }
  }
  if (!whole.empty()) end_line(false);
}

void for_each_line(const std::filesystem::path& file,
                   const std::function<void(std::string_view line)>& work) {
  for_each_text_line(file, [&](const TextLine& line) { work(line.text); });
}

std::string read_text(const std::filesystem::path& file) {
  std::string text = read_file(file);
  try {
    check_utf8(text);
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(fmt::format("{}: {}", file.string(), error.what()));
  }
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

}  // namespace ssa
