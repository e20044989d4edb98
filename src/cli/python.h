// Sub-commands that are the work of Python: this process becomes a module of the package.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace ssa {

struct PythonCommand {
  std::string module;   ///< "ssa_attention.tokenizer_training", whose main() is called
  std::string command;  ///< "tokenizer train"
  std::string needs;    ///< what to install where it cannot be imported
};

/// Gives every argument to the module, --help too. The Python is the one that SSA_PYTHON in the
/// environment names, else the one that this was built with, else python3.
void pass_to_python(CLI::App& app, const PythonCommand& command);

}  // namespace ssa
