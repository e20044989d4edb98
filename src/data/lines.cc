#include "data/lines.h"

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <iostream>
#include <stdexcept>

namespace ssa {

void for_each_line(const std::filesystem::path& file,
                   const std::function<void(const std::string& line)>& work) {
  std::ifstream stream;
  if (!file.empty()) {
    if (std::filesystem::is_directory(file)) {
      throw std::runtime_error(fmt::format("{}: is a folder, not a file", file.string()));
    }
    stream.open(file, std::ios::binary);
    if (!stream) throw std::runtime_error(fmt::format("{}: no such file", file.string()));
  }
  std::istream& lines = file.empty() ? std::cin : stream;
  const std::string name = file.empty() ? "standard input" : file.string();
  std::string line;
  for (std::int64_t number = 1; std::getline(lines, line); ++number) {
    try {
      work(line);
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(fmt::format("{}:{}: {}", name, number, error.what()));
    }
  }
  if (lines.bad()) throw std::runtime_error(fmt::format("{}: reading failed", name));
}

}  // namespace ssa
