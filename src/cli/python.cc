#include "cli/python.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "config/version.h"

namespace ssa {
namespace {

/// What Python runs, after it the module, the command, what it needs, and the arguments: the
/// module, without the working directory among the places that it imports from (a tokenizers.py
/// that lies beside a corpus is not to be run), and one line where a package is missing.
/// Python 3.11's -P does the first, but other versions have no such flag.
constexpr const char* kStart = R"(
import sys  # built in; an importlib.py could lie beside the corpus too
sys.path[:] = [place for place in sys.path if place]
import importlib
module, command, needs = sys.argv[1:4]
del sys.argv[1:4]
try:
    main = importlib.import_module(module).main
except ImportError as error:
    sys.exit(f"ssa: {command}: {sys.executable}: {error}: it needs {needs}; SSA_PYTHON in the environment names another "
             "Python")
sys.exit(main())
)";

/// Sets the package built with this for the Python built with this, where the environment names
/// none.
std::string choose_python() {
  if (const char* chosen = std::getenv("SSA_PYTHON")) return chosen;
  const std::string python(build_python());
  if (access(python.c_str(), X_OK) != 0) return "python3";
  setenv("PYTHONPATH", std::string(build_python_package()).c_str(), 0);
  return python;
}

/// An empty entry of PYTHONPATH is the working directory, which kStart could not take out again.
void drop_working_directory() {
  const char* given = std::getenv("PYTHONPATH");
  if (given == nullptr) return;
  std::string kept;
  for (const std::string& place : CLI::detail::split(given, ':')) {
    if (place.empty() || place == "." || place == "./") continue;
    kept += (kept.empty() ? "" : ":") + place;
  }
  setenv("PYTHONPATH", kept.c_str(), 1);
}

[[noreturn]] void become_python(const PythonCommand& work, const std::vector<std::string>& given) {
  const std::string python = choose_python();
  drop_working_directory();
  std::vector<std::string> command = {python, "-c", kStart, work.module, work.command, work.needs};
  command.insert(command.end(), given.begin(), given.end());
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  execvp(python.c_str(), words.data());
  throw std::runtime_error(
      fmt::format("{}: cannot be started ({}): {} needs Python with {}; SSA_PYTHON in the "
                  "environment names another one",
                  python, std::strerror(errno), work.command, work.needs));
}

}  // namespace

void pass_to_python(CLI::App& app, const PythonCommand& command) {
  app.prefix_command();  // every argument is the module's, --help too
  app.set_help_flag();
  app.callback([&app, command] { become_python(command, app.remaining()); });
}

}  // namespace ssa
