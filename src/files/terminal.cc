#include "files/terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "files/utf8.h"

namespace ssa {
namespace {

/// C0 and C1 controls, and those of bidirectional text (Unicode 9, "Directional Formatting
/// Characters").
bool is_control(char32_t point) {
  if (point < 0x20) return point != '\n' && point != '\t';
  return (point >= 0x7F && point < 0xA0) || point == 0x061C || point == 0x200E || point == 0x200F ||
         (point >= 0x202A && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
}

void write_to(std::FILE* stream, std::string_view bytes) {
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), stream) == bytes.size();
  if (written && std::ferror(stream) == 0) return;
  throw std::runtime_error(
      fmt::format("standard output: cannot be written: {}", std::strerror(errno)));
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    const std::string_view bytes = text.substr(0, point.length);
    text.remove_prefix(point.length);
    if (!point.valid) {
      for (const char byte : bytes) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    } else if (is_control(point.value)) {
      out += point.value < 0x80 ? fmt::format("\\x{:02x}", static_cast<std::uint32_t>(point.value))
                                : fmt::format("\\u{:04x}", static_cast<std::uint32_t>(point.value));
    } else {
      out += bytes;
    }
  }
  return out;
}

std::string printable_line(std::string_view text) {
  std::string line = printable(text);
  std::ranges::replace(line, '\n', ' ');
  return line;
}

void print_text(std::string_view text) { write_to(stdout, printable(text)); }

void warn(std::string_view message) {
  print_error_text(fmt::format("ssa: {}\n", printable_line(message)));
}

void print_error_text(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void write_output(std::string_view bytes) {
  static const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  write_to(stdout, terminal ? printable(bytes) : std::string(bytes));
  if (std::fflush(stdout) != 0) {
    throw std::runtime_error(
        fmt::format("standard output: cannot be written: {}", std::strerror(errno)));
  }
}

bool can_redraw(int descriptor) {
  const char* kind = std::getenv("TERM");
  const bool able = kind != nullptr && *kind != '\0' && std::strcmp(kind, "dumb") != 0;
  return able && ::isatty(descriptor) != 0;
}

void redraw(std::string_view text) {
  static const bool able = can_redraw(STDERR_FILENO);
  if (able) print_error_text(fmt::format("{}{}", kClearLine, printable_line(text)));
}

void fill_standard_descriptors() {
  for (int opened = 0; opened <= STDERR_FILENO;) {
    opened = ::open("/dev/null", O_RDWR);
    if (opened < 0) return;
    if (opened > STDERR_FILENO) ::close(opened);
  }
}

}  // namespace ssa
