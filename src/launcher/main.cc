// The program `ssa`: help and version at once, everything else by the program that is linked with
// torch, libexec/ssa-torch beside this one's folder. Loading torch takes longer than most help is
// read for, and only that program's own commands need it.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "config/version.h"
#include "files/terminal.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

constexpr int kFailure = 1;

/// What `ssa-torch help --all` prints: "## ssa train", a blank line, its help, a blank line, ….
constexpr std::string_view kHelp =
#include "help_text.h"
    ;

/// The help of the command ("ssa tokenizer encode"); empty where that program has to say it.
std::string_view help_of(const std::string& command) {
  const std::string head = fmt::format("## {}\n\n", command);
  const std::size_t found = kHelp.find(head);
  if (found == std::string_view::npos) return {};
  const std::string_view rest = kHelp.substr(found + head.size());
  const std::size_t end = rest.find("\n## ");
  return rest.substr(0, end == std::string_view::npos ? rest.size() - 1 : end);
}

/// What is asked for: "--version", a command whose help it is, or "" for what is not told here.
std::string question(std::vector<std::string> words) {
  if (words == std::vector<std::string>{"--version"}) return words.front();
  const auto is_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
  } else if (!words.empty() && is_help(words.back())) {
    words.pop_back();
  } else {
    return "";
  }
  std::string command = "ssa";
  for (const std::string& word : words) command += " " + word;
  return command;
}

[[noreturn]] void become_program(char** argv) {
  const fs::path program =
      fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "libexec/ssa-torch";
  execv(program.c_str(), argv);
  throw std::runtime_error(
      fmt::format("{}: cannot be started: {}", program.string(), std::strerror(errno)));
}

int run(int argc, char** argv) {
  fill_standard_descriptors();
  const std::string asked = question({argv + 1, argv + argc});
  const std::string_view help = help_of(asked);
  if (asked == "--version") {
    print("ssa {} ({})\n", version(), git_id());
  } else if (!help.empty()) {
    print_text(help);
  } else {
    become_program(argv);
  }
  if (std::fflush(stdout) != 0) throw std::runtime_error("standard output: cannot be written");
  return 0;
}

}  // namespace
}  // namespace ssa

int main(int argc, char** argv) {
  try {
    return ssa::run(argc, argv);
  } catch (const std::exception& error) {
    ssa::warn(error.what());
    return ssa::kFailure;
  }
}
