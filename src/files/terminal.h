// What people read: standard output and standard error.
//
// Names and texts come from data. Their control characters, which could move the cursor, colour
// what follows or rename the window, are shown as \x1b; so are the characters that turn the
// direction of writing round.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace ssa {

/// The text as it may be shown: control characters but \n and \t, and bytes that are not UTF-8, as
/// \x1b and \u202e.
std::string printable(std::string_view text);

/// The same in one line: line ends become spaces.
std::string printable_line(std::string_view text);

/// Writes printable(text) to standard output. Throws std::runtime_error where that fails.
void print_text(std::string_view text);

/// print_text of what fmt::format makes of the arguments.
template <class... Arguments>
void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  print_text(fmt::format(format, std::forward<Arguments>(arguments)...));
}

/// Writes "ssa: " and printable_line(message) to standard error, if it can be written to.
void warn(std::string_view message);

/// Writes the text to standard error as it is, if it can be written to.
void print_error_text(std::string_view text);

/// Writes the bytes to standard output as they are: text that was asked for as such. On a terminal
/// they are printable(). Throws std::runtime_error where that fails.
void write_output(std::string_view bytes);

/// Whether the descriptor is a terminal on which a line can be drawn again.
bool can_redraw(int descriptor);

/// Draws the line on standard error in the place of the one that was drawn before; nothing where
/// that is no terminal on which it could. An empty text clears the line.
void redraw(std::string_view text);

/// What draws a line again; before it, on a terminal that can_redraw().
inline constexpr const char* kClearLine = "\r\x1b[K";

/// Opens /dev/null in the place of standard descriptors that are closed: a file opened later would
/// have their number, and messages would be written into it.
void fill_standard_descriptors();

}  // namespace ssa
