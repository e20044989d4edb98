#include "files/lines.h"

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "files/byte_stream.h"

namespace ssa {

void for_each_line(const std::filesystem::path& file,
                   const std::function<void(const std::string& line)>& work) {
  const auto stream = open_bytes(file);
  std::string line;
  std::int64_t number = 0;
  const auto end_line = [&] {
    ++number;
    try {
      work(line);
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(fmt::format(
          "{}:{}: {}", file.empty() ? "standard input" : file.string(), number, error.what()));
    }
    line.clear();
  };
  std::vector<char> buffer(1 << 16);
  while (const std::size_t size = stream->read(buffer)) {
    std::string_view rest(buffer.data(), size);
    for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      line.append(rest.substr(0, end));
      end_line();
      rest.remove_prefix(end + 1);
    }
    line.append(rest);
  }
  if (!line.empty()) end_line();
}

}  // namespace ssa
